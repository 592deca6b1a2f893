//! The few shapes of the plots. Coordinates are in pixels of a drawing that scales with the page.

use std::fmt::Write;

/// The width of every drawing.
pub(super) const WIDTH: f64 = 900.0;
/// Colours of the style sheet.
pub(super) const COLOURS: usize = 8;

pub(super) struct Svg {
    out: String,
}

impl Svg {
    /// `label` is what a screen reader says.
    pub(super) fn new(height: f64, label: &str) -> Self {
        let out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">\n",
            number(height),
            escaped(label)
        );
        Self { out }
    }

    pub(super) fn finish(mut self) -> String {
        self.out += "</svg>\n";
        self.out
    }

    /// `class`: `q` quiet, `e` ends at x, `m` middle at x.
    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let (x, y, text) = (number(x), number(y), escaped(text));
        // Writing into a String cannot fail; the same holds below.
        let _ = writeln!(
            self.out,
            "<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{text}</text>"
        );
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(number);
        let _ = writeln!(
            self.out,
            "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" class=\"{class}\"/>"
        );
    }

    pub(super) fn dot(&mut self, x: f64, y: f64) {
        let (x, y) = (number(x), number(y));
        let _ = writeln!(
            self.out,
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"5\" class=\"dot\"/>"
        );
    }

    pub(super) fn bar(&mut self, x: f64, y: f64, width: f64, height: f64, colour: usize) {
        let [x, y, width, height] = [x, y, width.max(1.0), height].map(number);
        let colour = colour % COLOURS;
        let _ = writeln!(
            self.out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" class=\"f{colour}\"/>"
        );
    }

    pub(super) fn curve(&mut self, points: impl Iterator<Item = (f64, f64)>, colour: usize) {
        let points: Vec<String> = points
            .map(|(x, y)| format!("{},{}", number(x), number(y)))
            .collect();
        let (points, colour) = (points.join(" "), colour % COLOURS);
        let _ = writeln!(
            self.out,
            "<polyline points=\"{points}\" class=\"s{colour}\"/>"
        );
    }
}

/// One decimal is finer than a pixel. A value that is not a number would break the drawing.
fn number(value: f64) -> f64 {
    let value = if value.is_finite() { value } else { 0.0 };
    (value * 10.0).round() / 10.0
}

/// A figure for people: three digits, or a whole number.
pub(super) fn figure(value: f64) -> String {
    match value.abs() {
        ..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_characters_are_escaped() {
        assert_eq!(
            escaped("<a href='x'>\"&\"</a>"),
            "&lt;a href=&#39;x&#39;&gt;&quot;&amp;&quot;&lt;/a&gt;"
        );
        assert_eq!(escaped("µs → ms"), "µs → ms");
    }

    #[test]
    fn values_that_are_no_numbers_do_not_reach_the_drawing() {
        let mut svg = Svg::new(f64::NAN, "x");
        svg.bar(f64::INFINITY, 1.0, f64::NAN, 2.0, 99);
        let text = svg.finish();
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        assert!(text.contains("class=\"f3\""), "{text}");
    }

    #[test]
    fn figures_have_about_three_digits() {
        assert_eq!(
            [1.234, 12.34, 123.4].map(figure),
            ["1.23", "12.3", "123"].map(str::to_owned)
        );
    }
}
