//! The backlog over time, in one line: flat is well, growing means that more comes in than ships.

use std::fmt::Write;

use crate::load::watch::Sample;

/// A few moments of the drive are enough to see whether it is flat or growing.
pub(super) fn write(out: &mut String, samples: &[Sample]) -> std::fmt::Result {
    let accepted_all = samples.last().map_or(0, |sample| sample.accepted);
    // What comes after the last acceptance is draining, and always falls.
    let driven = samples
        .partition_point(|sample| sample.accepted < accepted_all)
        .max(1);
    let points = [
        (driven / 4, "at 25 %"),
        (driven / 2, "50 %"),
        (driven * 3 / 4, "75 %"),
        (driven - 1, "end"),
    ];
    write!(out, "  on their way (accepted − shipped):")?;
    for (index, name) in points {
        if let Some(sample) = samples.get(index) {
            write!(out, "  {name} {}", sample.backlog())?;
        }
    }
    let max = samples
        .iter()
        .map(Sample::backlog)
        .max()
        .unwrap_or_default();
    writeln!(out, "  max {max}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backlog_line_looks_at_the_drive_and_not_at_the_drain() {
        let sample = |accepted, shipped| Sample {
            at_s: 0.0,
            accepted,
            shipped,
        };
        let samples = [
            sample(0, 0),
            sample(10, 5),
            sample(20, 10),
            sample(30, 15),
            sample(40, 20),
            sample(40, 40),
        ];
        let mut out = String::new();
        write(&mut out, &samples).unwrap();
        assert!(out.contains("50 % 10"), "{out}");
        assert!(out.contains("end 15"), "{out}");
        assert!(out.contains("max 20"), "{out}");
    }
}
