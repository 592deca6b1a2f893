//! The report as text.

use std::fmt::Write;

use super::per_order::PerOrder;
use super::ratio::Ratio;
use super::report::Report;
use super::spread::{Spread, rounded};

pub(super) fn text(report: &Report) -> String {
    let mut out = String::new();
    // Writing into a String cannot fail.
    let _ = write_all(&mut out, report);
    out
}

fn write_all(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(out, "\n{}", report.machine.line())?;
    write_ratios(out, report)?;
    if let Some(throughput) = &report.throughput {
        writeln!(
            out,
            "\nclosed loop, {} clients: accepted {} /s, shipped {} /s, receipts {} /s",
            report.scale.clients,
            throughput.accepted_per_s.median.round(),
            throughput.shipped_per_s.median.round(),
            throughput.receipts_per_s.median.round()
        )?;
    }
    if let Some(latency) = &report.latency {
        writeln!(out, "\nrequest to shipped       p50 ms    p95 ms    p99 ms")?;
        for (name, rate_per_s, percentiles) in [
            ("idle", latency.idle_rate_per_s, latency.idle),
            ("half of saturation", latency.busy_rate_per_s, latency.busy),
        ] {
            writeln!(
                out,
                "  {name:<20} {:>8.1}  {:>8.1}  {:>8.1}   at {rate_per_s:.0} orders/s",
                percentiles.p50_ms, percentiles.p95_ms, percentiles.p99_ms
            )?;
        }
    }
    if let Some(overload) = &report.overload {
        writeln!(
            out,
            "\noverload, {} clients: accepted {:.0} /s, shipped {:.0} /s, {} behind at the end, request to shipped p95 {:.0} ms",
            overload.clients,
            overload.accepted_per_s,
            overload.shipped_per_s,
            overload.behind,
            overload.request_to_shipped.p95_ms
        )?;
    }
    write_catch_up(out, report)?;
    if let Some(per_order) = &report.per_order {
        write_per_order(out, per_order)?;
    }
    writeln!(
        out,
        "\n{} orders in {:.0} s, each charged exactly once. Repeat it: {}",
        report.orders, report.seconds, report.command
    )
}

fn write_ratios(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(
        out,
        "\n{:<11} {:>7} {:>16} {:>7}  ",
        "ratio", "median", "min to max", "wanted"
    )?;
    for ratio in Ratio::ALL {
        let Some(result) = report.ratios.get(&ratio) else {
            let reason = report.absent.get(&ratio).map_or("", String::as_str);
            writeln!(out, "{ratio:<11} {:>7}   {reason}", "–")?;
            continue;
        };
        let Spread {
            median, min, max, ..
        } = result.spread;
        let range = format!("{min:.2} to {max:.2}");
        let mark = if result.is_reached() { "✓" } else { " " };
        writeln!(
            out,
            "{ratio:<11} {median:>7.2} {range:>16} {:>7} {mark} {}",
            result.goal(),
            ratio.meaning()
        )?;
    }
    Ok(())
}

fn write_catch_up(out: &mut String, report: &Report) -> std::fmt::Result {
    for kill in &report.catch_up {
        writeln!(
            out,
            "\nafter a kill: {} orders in {:.1} s, the first after {:.1} s; {:.0} /s without a kill; {} in flight at the kill, the last after {:.1} s",
            kill.backlog,
            kill.seconds,
            kill.first_after_s,
            kill.drain_per_s,
            kill.in_flight,
            kill.in_flight_last_s
        )?;
    }
    Ok(())
}

fn write_per_order(out: &mut String, per_order: &PerOrder) -> std::fmt::Result {
    writeln!(out, "\nper order{:>22} {:>20}", "median", "min to max")?;
    let mut line = |name: &str, spread: &Spread| {
        let range = format!("{} to {}", spread.min, spread.max);
        writeln!(out, "  {name:<20} {:>8} {range:>20}", spread.median)
    };
    line("CPU µs, all", &per_order.cpu_us)?;
    for (name, cpu_us) in &per_order.cpu_us_by_process {
        line(&format!("  {name}"), cpu_us)?;
    }
    line("WAL bytes", &per_order.wal_bytes)?;
    line("WAL records", &per_order.wal_records)?;
    line("rows written", &per_order.rows_written)?;
    line("round trips", &per_order.round_trips)?;
    line("commits", &per_order.commits)?;
    let disk: f64 = per_order.disk_bytes.values().sum();
    writeln!(out, "  {:<20} {:>8}", "table bytes", rounded(disk))?;
    if let Some(bytes) = per_order.kafka_bytes {
        writeln!(out, "  {:<20} {bytes:>8}", "Kafka bytes")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::sample;

    #[test]
    fn text_has_every_ratio_with_its_goal_or_its_absence() {
        let text = text(&sample());
        for part in [
            "intake         1.60     1.50 to 1.70     ≥ 2",
            "latency        2.00     2.00 to 2.00     ≤ 4 ✓",
            "price             –   not built <yet>",
            "half of saturation       40.0      80.0     120.0   at 500 orders/s",
            "CPU µs, all              1053",
        ] {
            assert!(text.contains(part), "{part:?} is missing:\n{text}");
        }
    }
}
