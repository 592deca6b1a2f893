//! Curves over time: the memory of every process.

use super::svg::{Svg, WIDTH, figure};
use crate::bench::memory::Memory;

const HEIGHT: f64 = 240.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 24.0;
/// Lines of the legend are at least this far apart.
const LEGEND_STEP: f64 = 15.0;
/// A process above this is drawn in a separate plot, so that the others do not look like zero.
const LARGE_MIB: f64 = 100.0;

/// Two plots: large processes, and the others.
pub(super) fn memory(memory: &Memory) -> String {
    let peak = |column: &[f64]| column.iter().copied().fold(0.0, f64::max);
    let (large, small): (Vec<_>, Vec<_>) = memory
        .mib
        .iter()
        .map(|(name, column)| (name.as_str(), column.as_slice()))
        .partition(|(_, column)| peak(column) > LARGE_MIB);
    let mut out = String::new();
    for (label, columns) in [("Memory, services", small), ("Memory, others", large)] {
        if !columns.is_empty() && !memory.at_s.is_empty() {
            out += &plot(label, memory, &columns);
        }
    }
    out
}

fn plot(label: &str, memory: &Memory, columns: &[(&str, &[f64])]) -> String {
    let mut svg = Svg::new(HEIGHT, label);
    let end_s = memory.at_s.last().copied().unwrap_or_default().max(1.0);
    let values = columns.iter().flat_map(|(_, column)| column.iter());
    let top = values.copied().fold(1.0, f64::max) * 1.1;
    let x = |at_s: f64| LEFT + at_s / end_s * (WIDTH - LEFT - RIGHT);
    let y = |mib: f64| HEIGHT - BOTTOM - mib / top * (HEIGHT - TOP - BOTTOM);
    for part in [0.0, 0.5, 1.0] {
        let (mib, at_s) = (top * part, end_s * part);
        svg.line((LEFT, y(mib)), (WIDTH - RIGHT, y(mib)), "axis");
        svg.text(LEFT - 8.0, y(mib) + 4.0, "q e", &figure(mib));
        svg.text(x(at_s), HEIGHT - 6.0, "q m", &format!("{at_s:.0} s"));
    }
    for (index, phase) in memory.phases.iter().enumerate() {
        let at = x(phase.from_s);
        svg.line((at, TOP - 4.0), (at, HEIGHT - BOTTOM), "axis");
        // Two rows: short parts would otherwise write over each other.
        let row = if index % 2 == 0 { 10.0 } else { 22.0 };
        svg.text(at + 3.0, row, "q", &phase.name);
    }
    let mut ends: Vec<(f64, usize)> = Vec::new();
    for (index, (_, column)) in columns.iter().enumerate() {
        let points = memory.at_s.iter().zip(*column);
        svg.curve(points.map(|(at_s, mib)| (x(*at_s), y(*mib))), index);
        let last = column.last().copied().unwrap_or_default();
        ends.push((y(last), index));
    }
    legend(&mut svg, columns, ends);
    svg.finish()
}

/// A name beside the end of each curve, without overlaps.
fn legend(svg: &mut Svg, columns: &[(&str, &[f64])], mut ends: Vec<(f64, usize)>) {
    ends.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut above = HEIGHT - BOTTOM + LEGEND_STEP;
    for (y, index) in ends {
        let at = y.min(above - LEGEND_STEP);
        above = at;
        svg.bar(WIDTH - RIGHT + 8.0, at - 4.0, 8.0, 8.0, index);
        svg.text(WIDTH - RIGHT + 20.0, at + 4.0, "", columns[index].0);
    }
}
