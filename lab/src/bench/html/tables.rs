//! Tables: ratios, costs per order, statements, machine.

use super::svg::{escaped, figure};
use crate::bench::per_order::PerOrder;
use crate::bench::ratio::Ratio;
use crate::bench::report::Report;
use crate::bench::spread::Spread;

pub(super) fn ratios(report: &Report) -> String {
    let mut rows = Vec::new();
    for ratio in Ratio::ALL {
        let name = cell(ratio.name());
        let Some(result) = report.ratios.get(&ratio) else {
            let reason = report.absent.get(&ratio).map_or("", String::as_str);
            let dash = number("–");
            rows.push(format!(
                "{name}{dash}{dash}{dash}{dash}{dash}{}",
                cell(reason)
            ));
            continue;
        };
        let middle = |values: &[f64]| {
            let spread = Spread::of(values.iter().copied());
            spread.map_or_else(String::new, |it| {
                format!("{} {}", figure(it.median), result.unit)
            })
        };
        let class = if result.is_reached() { "n ok" } else { "n" };
        rows.push(format!(
            "{name}<td class=\"{class}\">{}</td>{}{}{}{}{}",
            figure(result.spread.median),
            number(&range(&result.spread)),
            number(&result.goal()),
            number(&middle(&result.measured)),
            number(&middle(&result.limit)),
            cell(ratio.meaning())
        ));
    }
    table(
        &[
            "ratio",
            "#median",
            "#min to max",
            "#goal",
            "#measured",
            "#limit",
            "meaning",
        ],
        &rows,
    )
}

pub(super) fn stress(report: &Report) -> String {
    let mut out = String::new();
    if let Some(it) = &report.overload {
        let figures = [
            it.clients as f64,
            it.accepted_per_s,
            it.shipped_per_s,
            it.behind as f64,
            it.unavailable as f64,
            it.response.p95_ms,
            it.request_to_shipped.p95_ms,
        ];
        out += &table(
            &[
                "#clients",
                "#accepted /s",
                "#shipped /s",
                "#behind at the end",
                "#429 or 5xx",
                "#response p95 ms",
                "#shipped p95 ms",
            ],
            &[figures.map(|value| number(&figure(value))).concat()],
        );
    }
    let kills = report.catch_up.iter().map(|it| {
        let figures = [
            it.backlog as f64,
            it.seconds,
            it.first_after_s,
            it.drain_per_s,
            it.in_flight as f64,
            it.in_flight_last_s,
        ];
        figures.map(|value| number(&figure(value))).concat()
    });
    let kills: Vec<String> = kills.collect();
    if !kills.is_empty() {
        out += &table(
            &[
                "#sent after the kill",
                "#shipped after s",
                "#the first after s",
                "#without a kill /s",
                "#in flight at the kill",
                "#the last of them after s",
            ],
            &kills,
        );
    }
    out
}

pub(super) fn per_order(per_order: &PerOrder) -> String {
    let costs = [
        ("CPU µs", &per_order.cpu_us),
        ("WAL bytes", &per_order.wal_bytes),
        ("WAL records", &per_order.wal_records),
        ("rows written", &per_order.rows_written),
        ("round trips", &per_order.round_trips),
        ("commits", &per_order.commits),
    ];
    let rows: Vec<String> = costs
        .iter()
        .map(|(name, spread)| {
            let median = number(&figure(spread.median));
            format!("{}{median}{}", cell(name), number(&range(spread)))
        })
        .collect();
    let totals = table(&["cost", "#median", "#min to max"], &rows);
    let rows: Vec<String> = per_order
        .by_database
        .iter()
        .map(|(name, it)| {
            let figures = [
                it.rows_written,
                it.round_trips,
                it.commits,
                it.statement_us,
                it.wal_bytes,
            ];
            let cells: String = figures.map(|value| number(&figure(value))).concat();
            format!("{}{cells}", cell(name))
        })
        .collect();
    let databases = table(
        &[
            "database",
            "#rows written",
            "#round trips",
            "#commits",
            "#µs in statements",
            "#WAL bytes",
        ],
        &rows,
    );
    let disk = per_order.disk_bytes.iter();
    let mut rows: Vec<String> = disk
        .map(|(name, bytes)| format!("{}{}", cell(name), number(&figure(*bytes))))
        .collect();
    if let Some(bytes) = per_order.kafka_bytes {
        rows.push(format!(
            "{}{}",
            cell("Kafka, one copy"),
            number(&figure(bytes))
        ));
    }
    totals + &databases + &table(&["table with its indexes", "#bytes"], &rows)
}

pub(super) fn statements(per_order: &PerOrder) -> String {
    let rows: Vec<String> = per_order
        .statements
        .iter()
        .map(|it| {
            let figures = [it.us, it.calls, it.rows, it.wal_bytes];
            let cells: String = figures.map(|value| number(&figure(value))).concat();
            let text = escaped(&it.statement);
            format!("{}{cells}<td><code>{text}</code></td>", cell(&it.database))
        })
        .collect();
    table(
        &[
            "database",
            "#µs",
            "#calls",
            "#rows",
            "#WAL bytes",
            "statement",
        ],
        &rows,
    )
}

pub(super) fn machine(report: &Report) -> String {
    let machine = &report.machine;
    let mut rows: Vec<(String, String)> = vec![
        (
            "CPU".to_owned(),
            format!("{}, {} cores", machine.cpu, machine.cores),
        ),
        ("memory".to_owned(), format!("{} GiB", machine.memory_gib)),
        ("kernel".to_owned(), machine.kernel.clone()),
        ("Postgres".to_owned(), machine.postgres.clone()),
        (
            "Kafka".to_owned(),
            format!("{}, {} partitions", machine.kafka, machine.partitions),
        ),
        ("build".to_owned(), machine.build.clone()),
        ("size of the run".to_owned(), report.scale.name.clone()),
    ];
    let settings = machine.postgres_settings.iter().chain(&machine.settings);
    rows.extend(settings.map(|(name, value)| (name.clone(), value.clone())));
    let rows: Vec<String> = rows
        .iter()
        .map(|(name, value)| format!("{}{}", cell(name), cell(value)))
        .collect();
    table(&["", ""], &rows)
}

/// A header that begins with `#` is that of numbers.
fn table(headers: &[&str], rows: &[String]) -> String {
    let headers: String = headers
        .iter()
        .map(|header| match header.strip_prefix('#') {
            Some(header) => format!("<th class=\"n\">{}</th>", escaped(header)),
            None => format!("<th>{}</th>", escaped(header)),
        })
        .collect();
    let rows: String = rows.iter().map(|row| format!("<tr>{row}</tr>\n")).collect();
    format!("<div class=\"wide\"><table>\n<tr>{headers}</tr>\n{rows}</table></div>\n")
}

fn cell(text: &str) -> String {
    format!("<td>{}</td>", escaped(text))
}

fn number(text: &str) -> String {
    format!("<td class=\"n\">{}</td>", escaped(text))
}

fn range(spread: &Spread) -> String {
    format!("{} to {}", figure(spread.min), figure(spread.max))
}
