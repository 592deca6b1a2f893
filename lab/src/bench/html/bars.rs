//! Horizontal bars: CPU time by process, latencies by percentile.

use super::svg::{Svg, WIDTH, figure};
use crate::bench::latency::Latency;
use crate::bench::per_order::PerOrder;

const ROW: f64 = 24.0;
const LEFT: f64 = 190.0;
/// Room for the figure after the longest bar.
const RIGHT: f64 = 110.0;

struct Row {
    name: String,
    value: f64,
    colour: usize,
}

pub(super) fn cpu(per_order: &PerOrder) -> String {
    let mut rows: Vec<Row> = per_order
        .cpu_us_by_process
        .iter()
        .map(|(name, cpu_us)| Row {
            name: name.clone(),
            value: cpu_us.median,
            colour: 0,
        })
        .collect();
    rows.sort_by(|a, b| b.value.total_cmp(&a.value));
    bars("CPU time per order by process", "µs", &rows)
}

pub(super) fn latencies(latency: &Latency) -> String {
    let of = |percentile: &str, idle_ms, busy_ms| {
        [("idle", idle_ms, 2), ("half of saturation", busy_ms, 1)].map(|(name, value, colour)| {
            Row {
                name: format!("{percentile}, {name}"),
                value,
                colour,
            }
        })
    };
    let (idle, busy) = (latency.idle, latency.busy);
    let rows = [
        of("p50", idle.p50_ms, busy.p50_ms),
        of("p95", idle.p95_ms, busy.p95_ms),
        of("p99", idle.p99_ms, busy.p99_ms),
    ];
    bars("Request to shipped", "ms", rows.as_flattened())
}

fn bars(label: &str, unit: &str, rows: &[Row]) -> String {
    let mut svg = Svg::new(ROW * rows.len() as f64 + 6.0, label);
    let longest = rows
        .iter()
        .map(|row| row.value)
        .fold(f64::EPSILON, f64::max);
    for (index, row) in rows.iter().enumerate() {
        let y = ROW * index as f64 + 4.0;
        let width = row.value / longest * (WIDTH - LEFT - RIGHT);
        svg.text(LEFT - 10.0, y + 14.0, "e", &row.name);
        svg.bar(LEFT, y, width, ROW - 6.0, row.colour);
        let figure = format!("{} {unit}", figure(row.value));
        svg.text(LEFT + width + 8.0, y + 14.0, "q", &figure);
    }
    svg.finish()
}
