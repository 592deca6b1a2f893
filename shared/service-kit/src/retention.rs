//! How long things are kept, and how often somebody looks.

use std::time::Duration;

#[derive(Clone, Debug, clap::Args)]
#[group(id = "retention")]
pub struct Settings {
    /// How long published events are kept, to be published again if the broker loses its data.
    #[arg(long, env = "OUTBOX_RETENTION_SECONDS", default_value_t = 7 * 86_400)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub outbox_retention_seconds: u64,
    /// How much time one partition of the outbox covers; it is dropped as a whole.
    #[arg(long, env = "OUTBOX_PARTITION_SECONDS", default_value_t = 86_400)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub outbox_partition_seconds: u64,
    /// How long the ledger remembers a message. Longer than any outbox keeps events, and than the
    /// topic keeps messages: what comes again after that meets only the tables' own constraints.
    #[arg(long, env = "LEDGER_RETENTION_SECONDS", default_value_t = 30 * 86_400)]
    pub ledger_retention_seconds: u64,
    /// Pause between two rounds of the reaper.
    #[arg(long, env = "REAPER_INTERVAL_MS", default_value_t = 60_000)]
    pub reaper_interval_ms: u64,
}

impl Settings {
    /// What the types cannot say.
    pub fn check(&self) -> anyhow::Result<()> {
        let events = self.outbox_retention_seconds + self.outbox_partition_seconds;
        anyhow::ensure!(
            self.ledger_retention_seconds > events,
            "LEDGER_RETENTION_SECONDS ({}) must be longer than OUTBOX_RETENTION_SECONDS and \
             OUTBOX_PARTITION_SECONDS together ({events}): an event that is published again must \
             still be known",
            self.ledger_retention_seconds
        );
        Ok(())
    }

    pub fn reaper_interval(&self) -> Duration {
        Duration::from_millis(self.reaper_interval_ms)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        retention: Settings,
    }

    fn check(ledger_seconds: &str) -> anyhow::Result<()> {
        let flags = [
            ["program", "--outbox-retention-seconds=60"],
            ["--outbox-partition-seconds", "10"],
            ["--ledger-retention-seconds", ledger_seconds],
        ];
        Program::parse_from(flags.as_flattened()).retention.check()
    }

    #[test]
    fn a_ledger_that_forgets_before_the_outbox_does_is_refused() {
        check("71").unwrap();
        for too_short in ["0", "60", "70"] {
            let error = check(too_short).unwrap_err().to_string();
            assert!(error.contains("LEDGER_RETENTION_SECONDS"), "{error}");
        }
    }

    #[test]
    fn the_defaults_fit() {
        Program::parse_from(["program"]).retention.check().unwrap();
    }
}
