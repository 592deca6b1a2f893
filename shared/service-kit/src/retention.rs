//! How long a service keeps old rows, and how often it looks for them.

use std::time::Duration;

#[derive(Clone, Debug, clap::Args)]
#[group(id = "retention")]
pub struct Settings {
    /// How long the outbox keeps published events. If the broker loses its data, they can be
    /// published again.
    #[arg(long, env = "OUTBOX_RETENTION_SECONDS", default_value_t = 7 * 86_400)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub outbox_retention_seconds: u64,
    /// How much time one partition of the outbox covers. A partition is dropped as a whole.
    #[arg(long, env = "OUTBOX_PARTITION_SECONDS", default_value_t = 86_400)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub outbox_partition_seconds: u64,
    /// How long the ids of processed messages are kept. Must be longer than any outbox keeps events
    /// and longer than the topic keeps messages. A later duplicate is not recognised; only the
    /// constraints of the tables stop it.
    #[arg(long, env = "PROCESSED_RETENTION_SECONDS", default_value_t = 30 * 86_400)]
    pub processed_retention_seconds: u64,
    /// Pause between two rounds of the reaper, which removes old rows.
    #[arg(long, env = "REAPER_INTERVAL_MS", default_value_t = 60_000)]
    pub reaper_interval_ms: u64,
}

impl Settings {
    /// Checks combinations of settings that the types cannot express.
    pub fn check(&self) -> anyhow::Result<()> {
        let outbox = self.outbox_retention_seconds + self.outbox_partition_seconds;
        anyhow::ensure!(
            self.processed_retention_seconds > outbox,
            "PROCESSED_RETENTION_SECONDS ({}) must be longer than OUTBOX_RETENTION_SECONDS and \
             OUTBOX_PARTITION_SECONDS together ({outbox}): a consumer must recognise an event that \
             is published again",
            self.processed_retention_seconds
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

    fn check(processed_seconds: &str) -> anyhow::Result<()> {
        let flags = [
            ["program", "--outbox-retention-seconds=60"],
            ["--outbox-partition-seconds", "10"],
            ["--processed-retention-seconds", processed_seconds],
        ];
        Program::parse_from(flags.as_flattened()).retention.check()
    }

    #[test]
    fn processed_retention_must_exceed_outbox_retention() {
        check("71").unwrap();
        for too_short in ["0", "60", "70"] {
            let error = check(too_short).unwrap_err().to_string();
            assert!(error.contains("PROCESSED_RETENTION_SECONDS"), "{error}");
        }
    }

    #[test]
    fn default_settings_are_valid() {
        Program::parse_from(["program"]).retention.check().unwrap();
    }
}
