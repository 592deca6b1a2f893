//! Prints the report as text.

mod backlog;

use std::fmt::Write;

use super::report::{BacklogDrain, Report};
use crate::measure::percentiles::Percentiles;
use crate::measure::usage::{CONSOLE_QUERIES, Usage, console_share, replica_sums};

/// The whole report as text.
pub(super) fn text(report: &Report) -> String {
    let mut out = String::new();
    // Writing into a String cannot fail.
    let _ = write_all(&mut out, report);
    out
}

fn write_all(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(out, "\n{}", report.drive)?;
    writeln!(
        out,
        "  accepted {:>9}   {:>9.1} /s",
        report.accepted, report.accepted_per_s
    )?;
    writeln!(
        out,
        "  shipped  {:>9}   {:>9.1} /s   (first request to last shipment)",
        report.shipped, report.shipped_per_s
    )?;
    writeln!(
        out,
        "  receipts {:>9}   {:>9.1} /s   (first request to last mail)",
        report.receipts, report.receipts_per_s
    )?;
    writeln!(
        out,
        "\n  {:<22} {:>9} {:>9} {:>9} {:>9}",
        "milliseconds", "p50", "p95", "p99", "max"
    )?;
    write_percentiles(out, "response", &report.response)?;
    write_percentiles(out, "response to a repeat", &report.replay)?;
    write_percentiles(out, "request to shipped", &report.request_to_shipped)?;
    write_percentiles(out, "request to receipt", &report.request_to_receipt)?;
    write_percentiles(out, "generator delay", &report.generator_late)?;
    write_counts(out, report)?;
    backlog::write(out, &report.backlog)?;
    if let Some(drain) = &report.drain {
        write_drain(out, drain)?;
    }
    write_usage(out, "\n  process", &report.usage, report.accepted)?;
    write_limit(out, report)?;
    let books = &report.books;
    writeln!(
        out,
        "\n  provider's books: {} orders with exactly 1 charge, {} with 0, {} with more",
        books.charged_once, books.not_charged, books.charged_more_than_once
    )
}

fn write_percentiles(out: &mut String, name: &str, percentiles: &Percentiles) -> std::fmt::Result {
    if percentiles.count == 0 {
        return Ok(());
    }
    let Percentiles {
        p50_ms,
        p95_ms,
        p99_ms,
        max_ms,
        ..
    } = percentiles;
    writeln!(
        out,
        "  {name:<22} {p50_ms:>9.1} {p95_ms:>9.1} {p99_ms:>9.1} {max_ms:>9.1}"
    )
}

fn write_counts(out: &mut String, report: &Report) -> std::fmt::Result {
    let counts = &report.counts;
    writeln!(
        out,
        "\n  of {} orders sent: {} repeated, {} sent twice in parallel, {} with a hang-up ({} of them existed on the retry)",
        counts.sent, counts.retried, counts.duplicated, counts.hung_up, counts.hung_up_existed
    )?;
    writeln!(
        out,
        "  retried later: {} key in flight, {} with 429 or 5xx, {} connection errors",
        counts.in_flight, counts.unavailable, counts.connection_errors
    )?;
    match &report.first_error {
        Some(error) => writeln!(out, "  first error: {error}"),
        None => Ok(()),
    }
}

fn write_drain(out: &mut String, drain: &BacklogDrain) -> std::fmt::Result {
    writeln!(
        out,
        "\n  backlog of {} orders shipped in {:.1} s after payment was started: {:.1} /s (the first after {:.1} s)",
        drain.orders, drain.seconds, drain.orders_per_s, drain.first_after_s
    )?;
    writeln!(
        out,
        "  {:<18} {:>16} {:>16}",
        "peak memory, MiB", "before the drain", "after it"
    )?;
    for after in &drain.after {
        let before = drain.before.iter().find(|usage| usage.name == after.name);
        let before = before.map_or_else(
            || "–".to_owned(),
            |usage| format!("{:.1}", usage.peak_rss_mib),
        );
        writeln!(
            out,
            "  {:<18} {before:>16} {:>16.1}",
            after.name, after.peak_rss_mib
        )?;
    }
    Ok(())
}

fn write_usage(out: &mut String, title: &str, usage: &[Usage], orders: u64) -> std::fmt::Result {
    writeln!(
        out,
        "{title:<20} {:>8} {:>14} {:>16}",
        "CPU s", "CPU µs/order", "peak memory MiB"
    )?;
    let per_order = |cpu_s: f64| cpu_s * 1e6 / orders.max(1) as f64;
    for Usage {
        name,
        cpu_s,
        peak_rss_mib,
    } in usage
    {
        writeln!(
            out,
            "  {name:<17} {cpu_s:>8.2} {:>14.0} {peak_rss_mib:>16.1}",
            per_order(*cpu_s)
        )?;
    }
    for (name, count, cpu_s) in replica_sums(usage) {
        let name = format!("{count} × {name}");
        writeln!(out, "  {name:<17} {cpu_s:>8.2} {:>14.0}", per_order(cpu_s))?;
    }
    let lines = usage.iter().filter(|usage| usage.name != CONSOLE_QUERIES);
    let sum: f64 = lines.map(|usage| usage.cpu_s).sum();
    writeln!(out, "  {:<17} {sum:>8.2} {:>14.0}", "all", per_order(sum))?;
    match console_share(usage) {
        Some(share) => writeln!(
            out,
            "  console and its queries: {:.2} % of the system's CPU time",
            share * 100.0
        ),
        None => Ok(()),
    }
}

fn write_limit(out: &mut String, report: &Report) -> std::fmt::Result {
    let (Some(limit), Some((intake, shipped))) = (&report.limit, report.ratios()) else {
        return Ok(());
    };
    writeln!(
        out,
        "\n  pgbench with the intake SQL alone, {} clients: {:.1} /s, {:.1} ms",
        limit.clients, limit.tps, limit.latency_ms
    )?;
    writeln!(
        out,
        "  accepted ÷ pgbench {intake:.2}    shipped ÷ pgbench {shipped:.2}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::report::tests::good;

    #[test]
    fn text_has_the_books_the_receipts_and_both_ratios() {
        let text = text(&good());
        assert!(
            text.contains("100 orders with exactly 1 charge, 0 with 0, 0 with more"),
            "{text}"
        );
        assert!(text.contains("receipts       100        20.0 /s"), "{text}");
        assert!(
            text.contains("accepted ÷ pgbench 0.50    shipped ÷ pgbench 0.25"),
            "{text}"
        );
    }
}
