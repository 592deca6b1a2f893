//! The backlog over time, in one line. A growing backlog means that more orders come in than ship.

use std::fmt::Write;

use crate::load::sampler::Sample;

/// Four points of the drive are enough to see whether the backlog grows.
pub(super) fn write(out: &mut String, samples: &[Sample]) -> std::fmt::Result {
    let accepted_all = samples.last().map_or(0, |sample| sample.accepted);
    // After the last acceptance the backlog only falls, so it is left out.
    let driven = samples
        .partition_point(|sample| sample.accepted < accepted_all)
        .max(1);
    let points = [
        (driven / 4, "at 25 %"),
        (driven / 2, "50 %"),
        (driven * 3 / 4, "75 %"),
        (driven - 1, "end"),
    ];
    write!(out, "  not yet shipped (accepted − shipped):")?;
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
    fn backlog_line_covers_the_drive_only() {
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
