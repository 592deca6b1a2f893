//! The plan as text.

use std::fmt::Write;

use super::assumptions::Assumptions;
use super::demand::{Costs, Demand, SERVICES};
use super::limits::Limit;
use crate::bench::report::Report;

/// Characters of a line.
const WIDTH: usize = 110;

pub(super) fn text(
    report: &Report,
    costs: &Costs,
    assumptions: &Assumptions,
    demands: &[Demand],
    limits: &[Limit],
) -> String {
    let mut out = String::new();
    // Writing into a String cannot fail.
    let _ = write_all(&mut out, report, costs, assumptions, demands, limits);
    out
}

fn write_all(
    out: &mut String,
    report: &Report,
    costs: &Costs,
    assumptions: &Assumptions,
    demands: &[Demand],
    limits: &[Limit],
) -> std::fmt::Result {
    writeln!(out, "measured on {}", report.machine.line())?;
    let sum = |figures: &std::collections::BTreeMap<_, f64>| figures.values().sum::<f64>();
    writeln!(
        out,
        "per order: {:.0} µs in the services, {:.0} µs in Postgres, {:.0} µs in Kafka, {:.1} KB of WAL, {:.1} KB in Kafka, {:.1} KB kept",
        sum(&costs.service_us),
        sum(&costs.database_us),
        costs.kafka_us,
        sum(&costs.wal_bytes) / 1e3,
        costs.kafka_bytes / 1e3,
        costs.kept_bytes / 1e3
    )?;
    writeln!(out, "\nassumptions")?;
    for line in assumptions.lines() {
        writeln!(out, "  {line}")?;
    }
    write_demands(out, demands)?;
    writeln!(out, "\nlimits, and what changes there")?;
    for limit in limits {
        writeln!(
            out,
            "\n  {} orders/s: {}",
            whole(limit.rate_per_s),
            limit.what
        )?;
        for line in wrapped(limit.then, WIDTH - 4) {
            writeln!(out, "    {line}")?;
        }
    }
    for demand in demands {
        let passed = limits
            .iter()
            .filter(|it| it.rate_per_s < demand.rate_per_s)
            .count();
        writeln!(
            out,
            "\n  {} orders/s is beyond {passed} of these {} limits.",
            whole(demand.rate_per_s),
            limits.len()
        )?;
    }
    Ok(())
}

fn write_demands(out: &mut String, demands: &[Demand]) -> std::fmt::Result {
    writeln!(out)?;
    let mut row = |name: &str, value: &dyn Fn(&Demand) -> String| {
        let cells: String = demands
            .iter()
            .map(|it| format!("{:>14}", value(it)))
            .collect();
        writeln!(out, "  {name:<36}{cells}")
    };
    row("orders per second", &|it| whole(it.rate_per_s))?;
    for service in SERVICES {
        row(&format!("replicas of {service}"), &|it| {
            it.replicas[&service].to_string()
        })?;
    }
    row("Kafka partitions", &|it| it.partitions.to_string())?;
    row("Kafka brokers", &|it| it.brokers.to_string())?;
    for service in SERVICES {
        row(&format!("Postgres servers of {service}"), &|it| {
            if it.is_one_server {
                "shared".to_owned()
            } else {
                it.servers[&service].to_string()
            }
        })?;
    }
    row("Postgres servers, without standbys", &|it| {
        let servers = it.servers.values().sum::<u64>();
        if it.is_one_server { 1 } else { servers }.to_string()
    })?;
    row("WAL per day, GB", &|it| whole(it.wal_gb_per_day))?;
    row("tables, growth per day, GB", &|it| {
        whole(it.kept_gb_per_day)
    })?;
    row("tables, full windows, GB", &|it| whole(it.windowed_gb))?;
    row("Kafka, full window, all copies, GB", &|it| {
        whole(it.kafka_gb)
    })
}

/// A whole number with commas.
fn whole(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The words in lines of at most `width` characters.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::sample;
    use crate::capacity::assumptions::tests::defaults;
    use crate::capacity::limits::limits;

    #[test]
    fn plan_names_every_part_and_its_assumptions() {
        let (report, assumptions) = (sample(), defaults());
        let costs = Costs::of(&report).unwrap();
        let demands = [1_000.0, 100_000.0].map(|rate| Demand::of(rate, &costs, &assumptions));
        let limits = limits(&costs, &assumptions);
        let text = text(&report, &costs, &assumptions, &demands, &limits);
        let spaced: Vec<&str> = text.split_whitespace().collect();
        let spaced = spaced.join(" ");
        for part in [
            "replicas of payment 2 59",
            "Kafka brokers 3 13",
            "Postgres servers of order shared 2",
            "a charge takes 300 ms",
            "Shard by order id.",
            "100,000 orders/s is beyond",
        ] {
            assert!(spaced.contains(part), "{part:?} is missing:\n{text}");
        }
        assert!(
            text.lines().all(|line| line.chars().count() <= 160),
            "{text}"
        );
    }

    #[test]
    fn numbers_have_commas_and_text_is_wrapped() {
        assert_eq!(
            [1.4, 999.0, 1_000.0, 1_234_567.0].map(whole),
            ["1", "999", "1,000", "1,234,567"].map(str::to_owned)
        );
        assert_eq!(wrapped("aa bb cc", 5), ["aa bb", "cc"]);
    }
}
