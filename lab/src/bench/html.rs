//! The report as one HTML page: plots as inline SVG, light and dark, no script and nothing to load.

mod bars;
mod lines;
mod strips;
mod svg;
mod tables;

use std::fmt::Write;

use super::report::Report;
use svg::escaped;

const STYLE: &str = include_str!("html/style.css");

pub(super) fn page(report: &Report) -> String {
    let mut out = String::new();
    // Writing into a String cannot fail.
    let _ = write_page(&mut out, report);
    out
}

fn write_page(out: &mut String, report: &Report) -> std::fmt::Result {
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>ChargeOnce: lab bench</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>lab bench</h1>\n<p>{}.</p>\n<p>{} orders in {:.0} s on {}; each was charged exactly once. \
         Made by <code>{}</code>.</p>\n",
        escaped(&report.machine.line()),
        report.orders,
        report.seconds,
        report.started_at.format("%Y-%m-%d"),
        escaped(&report.command)
    )?;
    section(
        out,
        "Ratios",
        "Each dot is one pair, the bar is the median, the dashed line is the goal.",
        &(strips::ratios(report) + &tables::ratios(report)),
    )?;
    if let Some(latency) = &report.latency {
        section(
            out,
            "Request to shipped",
            "Open loop; a latency counts from the scheduled time of the request.",
            &bars::latencies(latency),
        )?;
    }
    if report.overload.is_some() || !report.catch_up.is_empty() {
        section(
            out,
            "Overload and catch-up",
            "Overload is a closed loop with more clients than the system can serve. After a kill, payment starts again.",
            &tables::stress(report),
        )?;
    }
    if let Some(per_order) = &report.per_order {
        section(
            out,
            "CPU time per order",
            "Medians over the closed loops of end_to_end. The load generator is not part of the system.",
            &bars::cpu(per_order),
        )?;
        section(
            out,
            "What one order costs",
            "A backend reports rows, commits and WAL records up to a second late.",
            &tables::per_order(per_order),
        )?;
        section(
            out,
            "Statements",
            "Per order, the most expensive first. Times are inside Postgres.",
            &tables::statements(per_order),
        )?;
    }
    section(
        out,
        "Memory over time",
        "Resident memory in MiB; the vertical lines are the parts of the run.",
        &lines::memory(&report.memory),
    )?;
    section(out, "Machine", "", &tables::machine(report))?;
    writeln!(out, "</main>\n</body>\n</html>")
}

fn section(out: &mut String, title: &str, note: &str, content: &str) -> std::fmt::Result {
    writeln!(out, "<section>\n<h2>{}</h2>", escaped(title))?;
    if !note.is_empty() {
        writeln!(out, "<p>{}</p>", escaped(note))?;
    }
    writeln!(out, "{content}</section>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::sample;

    #[test]
    fn values_are_escaped() {
        let page = page(&sample());
        assert!(page.contains("CPU &lt;fast&gt; &amp; &quot;cheap&quot;"));
        assert!(page.contains("not built &lt;yet&gt;"));
        assert!(!page.contains("<fast>") && !page.contains("<yet>"));
    }

    #[test]
    fn page_loads_nothing_and_has_its_plots() {
        let page = page(&sample());
        for foreign in [
            "http:", "https:", "src=", "href=", "<script", "url(", "@import",
        ] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert!(page.matches("<svg").count() >= 4, "{page}");
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        assert!(page.contains("prefers-color-scheme: dark"));
        assert!(!page.contains("NaN") && !page.contains("inf\""));
    }
}
