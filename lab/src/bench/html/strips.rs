//! One strip per ratio: its pairs, its median and its goal.

use super::svg::{Svg, WIDTH, figure};
use crate::bench::ratio::{Ratio, RatioResult};
use crate::bench::report::Report;

const HEIGHT: f64 = 64.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 30.0;
/// The axis ends this far after the largest value.
const MARGIN: f64 = 1.12;

pub(super) fn ratios(report: &Report) -> String {
    let drawn = report.ratios.iter();
    drawn.map(|(ratio, result)| strip(*ratio, result)).collect()
}

fn strip(ratio: Ratio, result: &RatioResult) -> String {
    let spread = &result.spread;
    let label = format!(
        "{ratio}: median {} of {} pairs, goal {}",
        figure(spread.median),
        spread.pairs.len(),
        result.goal()
    );
    let mut svg = Svg::new(HEIGHT, &label);
    let end = spread.max.max(result.wanted).max(f64::EPSILON) * MARGIN;
    let at = |value: f64| LEFT + value / end * (WIDTH - LEFT - RIGHT);
    let middle = 26.0;
    svg.text(0.0, middle + 4.0, "", ratio.name());
    svg.line((LEFT, middle), (WIDTH - RIGHT, middle), "axis");
    for (value, text) in [(0.0, "0".to_owned()), (end / MARGIN, figure(end / MARGIN))] {
        svg.text(at(value), HEIGHT - 8.0, "q m", &text);
    }
    svg.line(
        (at(result.wanted), 6.0),
        (at(result.wanted), middle + 18.0),
        "goal",
    );
    for pair in &spread.pairs {
        svg.dot(at(*pair), middle);
    }
    svg.line(
        (at(spread.median), middle - 12.0),
        (at(spread.median), middle + 12.0),
        "median",
    );
    svg.text(
        at(spread.median),
        middle - 15.0,
        "m",
        &figure(spread.median),
    );
    svg.finish()
}
