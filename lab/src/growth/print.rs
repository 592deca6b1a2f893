//! The report as text.

use std::fmt::Write;

use super::report::{Figures, Report, SizeResult};

type Figure = (&'static str, fn(&Figures) -> f64);

const FIGURES: [Figure; 7] = [
    ("CPU µs", |it| it.cpu_us),
    ("WAL bytes", |it| it.wal_bytes),
    ("WAL records", |it| it.wal_records),
    ("whole pages in the WAL", |it| it.wal_pages),
    ("buffers", |it| it.buffers),
    ("rows written", |it| it.rows_written),
    ("round trips", |it| it.round_trips),
];

pub(super) fn text(report: &Report) -> String {
    let mut out = String::new();
    // Writing into a String cannot fail.
    let _ = write_all(&mut out, report);
    out
}

fn write_all(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(out, "\n{}", report.machine.line())?;
    write_sizes(out, report)?;
    write_figures(out, report)?;
    for size in &report.sizes {
        write_grown(out, size)?;
    }
    if let Some(largest) = report.sizes.last() {
        write_maintenance(out, largest)?;
    }
    writeln!(out, "\nRepeat it: {}", report.command)
}

fn write_sizes(out: &mut String, report: &Report) -> std::fmt::Result {
    let mut row = |name: &str, value: &dyn Fn(&SizeResult) -> String| {
        write!(out, "{name:<28}")?;
        for size in &report.sizes {
            write!(out, " {:>18}", value(size))?;
        }
        writeln!(out)
    };
    row("\nfilled orders", &|size| grouped(size.filled.orders))?;
    row("within their windows", &|size| {
        grouped(size.filled.window_orders)
    })?;
    row("tables and indexes, MiB", &|size| {
        format!("{:.0}", size.filled.table_bytes / 1024.0 / 1024.0)
    })?;
    row("seconds to fill", &|size| {
        format!("{:.0}", size.filled.seconds)
    })?;
    row("new orders, then replays", &|size| {
        grouped(size.measured_orders)
    })?;
    row("invariants of all orders", &|size| {
        let checked = size.filled.invariants;
        if checked { "hold" } else { "not checked" }.to_owned()
    })
}

fn write_figures(out: &mut String, report: &Report) -> std::fmt::Result {
    let mut block = |title: &str, of: &dyn Fn(&SizeResult) -> (Figures, Figures)| {
        writeln!(out, "\n{title}")?;
        for (name, figure) in FIGURES {
            write!(out, "  {name:<25}")?;
            for size in &report.sizes {
                let (value, ratio) = of(size);
                let value = format!("{} ({:.2})", short(figure(&value)), figure(&ratio));
                write!(out, " {value:>18}")?;
            }
            writeln!(out)?;
        }
        Ok(())
    };
    block("per new order (÷ smallest size)", &|it| {
        (it.per_order, it.ratios)
    })?;
    block("per replay (÷ new order)", &|it| {
        (it.replay.per_replay, it.replay.ratios)
    })?;
    write!(out, "  {:<25}", "buffers ÷ intake alone")?;
    for size in &report.sizes {
        write!(out, " {:>18.2}", size.replay.buffers_to_intake)?;
    }
    writeln!(out)?;
    writeln!(
        out,
        "\nmaintenance in that time, per new order; included above"
    )?;
    for (name, figure) in [
        ("ms", (|it| it.maintenance.ms) as fn(&SizeResult) -> f64),
        ("buffers", |it| it.maintenance.buffers),
        ("WAL bytes", |it| it.maintenance.wal_bytes),
    ] {
        write!(out, "  {name:<25}")?;
        for size in &report.sizes {
            write!(out, " {:>18}", short(figure(size)))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn write_grown(out: &mut String, size: &SizeResult) -> std::fmt::Result {
    if size.grown.is_empty() {
        return Ok(());
    }
    let orders = grouped(size.filled.orders);
    writeln!(
        out,
        "\nstatements whose cost per order grew up to {orders} orders"
    )?;
    writeln!(out, "  {:>17} {:>17}", "buffers", "WAL bytes")?;
    for grown in &size.grown {
        let both = |(from, to)| format!("{} → {}", short(from), short(to));
        writeln!(
            out,
            "  {:>17} {:>17}  {}: {}",
            both(grown.buffers),
            both(grown.wal_bytes),
            grown.database,
            grown.statement
        )?;
    }
    Ok(())
}

fn write_maintenance(out: &mut String, size: &SizeResult) -> std::fmt::Result {
    let orders = grouped(size.filled.orders);
    writeln!(out, "\nmaintenance with {orders} orders, in total")?;
    writeln!(
        out,
        "  {:>5} {:>9} {:>8} {:>8} {:>10}",
        "calls", "ms", "rows", "buffers", "WAL bytes"
    )?;
    for it in &size.maintenance.statements {
        writeln!(
            out,
            "  {:>5} {:>9.1} {:>8} {:>8} {:>10}  {}",
            it.calls, it.ms, it.rows, it.buffers, it.wal_bytes, it.statement
        )?;
    }
    Ok(())
}

fn short(value: f64) -> String {
    match value {
        it if it >= 100.0 => format!("{it:.0}"),
        it if it >= 1.0 => format!("{it:.1}"),
        it => format!("{it:.3}"),
    }
}

/// With a comma between thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::bench::machine::Machine;
    use crate::growth::report::tests::size;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn text_has_every_size_with_its_ratio() {
        let small = size(1_000, 7_700.0);
        let mut large = size(100_000, 8_700.0);
        large.compare_with(&small);
        let text = text(&Report {
            machine: Machine::default(),
            retention: BTreeMap::new(),
            clients: 16,
            sizes: vec![small, large],
            command: "lab growth".to_owned(),
            started_at: chrono::Utc::now(),
            seconds: 1.0,
        });
        for part in [
            "100,000",
            "110 (1.10)",
            "100 (1.00)",
            "77.0 → 87.0",
            "drop table outbox_until_…",
        ] {
            assert!(text.contains(part), "{part:?} is missing:\n{text}");
        }
    }
}
