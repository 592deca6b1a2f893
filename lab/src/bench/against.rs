//! Compares a report with a committed one: what became worse, or better, beyond the spread of both.

use std::fmt::Write;

use super::ratio::Better;
use super::report::Report;
use super::spread::Spread;

/// The outcome for everything that both reports have.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Comparison {
    pub(super) worse: Vec<Change>,
    pub(super) better: Vec<Change>,
    pub(super) unchanged: usize,
    /// What makes the two reports hard to compare.
    pub(super) notes: Vec<String>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Change {
    name: String,
    baseline: Spread,
    now: Spread,
}

pub(super) fn compare(now: &Report, baseline: &Report) -> Comparison {
    let mut comparison = Comparison {
        notes: notes(now, baseline),
        ..Comparison::default()
    };
    let current = figures(now);
    for (name, before, better) in figures(baseline) {
        let Some((_, now, _)) = current.iter().find(|(other, _, _)| *other == name) else {
            comparison.notes.push(format!("{name} was not measured"));
            continue;
        };
        let change = || Change {
            name: name.clone(),
            baseline: before.clone(),
            now: (*now).clone(),
        };
        if now.is_worse_than(before, better) {
            comparison.worse.push(change());
        } else if before.is_worse_than(now, better) {
            comparison.better.push(change());
        } else {
            comparison.unchanged += 1;
        }
    }
    comparison
}

/// Every figure with a spread.
fn figures(report: &Report) -> Vec<(String, &Spread, Better)> {
    let ratios = report.ratios.iter();
    let mut all: Vec<_> = ratios
        .map(|(ratio, result)| (ratio.name().to_owned(), &result.spread, ratio.better()))
        .collect();
    if let Some(per_order) = &report.per_order {
        let costs = [
            ("CPU µs per order", &per_order.cpu_us),
            ("WAL bytes per order", &per_order.wal_bytes),
            ("WAL records per order", &per_order.wal_records),
            ("rows written per order", &per_order.rows_written),
            ("round trips per order", &per_order.round_trips),
            ("commits per order", &per_order.commits),
        ];
        all.extend(costs.map(|(name, spread)| (name.to_owned(), spread, Better::Lower)));
    }
    all
}

fn notes(now: &Report, baseline: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |differs: bool, text: String| differs.then(|| notes.push(text));
    let (here, there) = (&now.machine, &baseline.machine);
    note(
        (&here.cpu, here.cores, &here.kernel) != (&there.cpu, there.cores, &there.kernel),
        format!("another machine: the baseline has {}", there.line()),
    );
    note(
        here.build != there.build,
        format!(
            "another build: {}, the baseline is a {} build",
            here.build, there.build
        ),
    );
    note(
        now.scale != baseline.scale,
        format!(
            "another size: {}, the baseline is {}",
            now.scale.name, baseline.scale.name
        ),
    );
    notes
}

impl Comparison {
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        // Writing into a String cannot fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "\nagainst the baseline")?;
        for note in &self.notes {
            writeln!(out, "  note: {note}")?;
        }
        for (label, changes) in [("worse", &self.worse), ("better", &self.better)] {
            for Change {
                name,
                baseline,
                now,
            } in changes
            {
                writeln!(
                    out,
                    "  {label:<7} {name:<24} {} ({} to {}), was {} ({} to {})",
                    now.median, now.min, now.max, baseline.median, baseline.min, baseline.max
                )?;
            }
        }
        writeln!(
            out,
            "  {} worse, {} better, {} within the spread",
            self.worse.len(),
            self.better.len(),
            self.unchanged
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::ratio::Ratio;
    use crate::bench::report::tests::sample;

    fn names(changes: &[Change]) -> Vec<&str> {
        changes.iter().map(|change| change.name.as_str()).collect()
    }

    #[test]
    fn report_is_not_worse_than_itself() {
        let comparison = compare(&sample(), &sample());
        assert_eq!(comparison.unchanged, 8);
        assert!(comparison.worse.is_empty() && comparison.better.is_empty());
        assert_eq!(comparison.notes, Vec::<String>::new());
    }

    #[test]
    fn changes_beyond_the_spread_are_named() {
        let mut now = sample();
        let slower = Ratio::Intake.result(&[(120.0, 100.0), (125.0, 100.0)]);
        now.ratios.insert(Ratio::Intake, slower.unwrap());
        let faster = Ratio::Latency.result(&[(30.0, 20.0)]);
        now.ratios.insert(Ratio::Latency, faster.unwrap());
        now.per_order.as_mut().unwrap().wal_bytes = Spread::of([12_000.0]).unwrap();
        let comparison = compare(&now, &sample());
        assert_eq!(names(&comparison.worse), ["intake", "WAL bytes per order"]);
        assert_eq!(names(&comparison.better), ["latency"]);
        let text = comparison.text();
        assert!(text.contains("2 worse, 1 better, 5 within"), "{text}");
    }

    #[test]
    fn other_machine_size_and_missing_ratio_are_noted() {
        let mut now = sample();
        now.machine.cores = 64;
        now.scale = crate::bench::scale::Scale::full();
        now.ratios.remove(&Ratio::Latency);
        let comparison = compare(&now, &sample());
        assert_eq!(comparison.notes.len(), 3, "{:?}", comparison.notes);
        assert!(comparison.worse.is_empty());
    }
}
