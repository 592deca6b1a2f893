//! What the arithmetic assumes beyond the measured figures. Each is a flag.

use anyhow::ensure;

#[derive(Debug, Clone, PartialEq, clap::Args)]
pub(crate) struct Assumptions {
    /// Share of a machine's CPU and disk that may be in use: the rest is for peaks and for a machine that fails.
    #[arg(long, default_value_t = 0.6)]
    pub(super) utilisation: f64,
    /// Cores of one replica of a service.
    #[arg(long, default_value_t = 2)]
    pub(super) replica_cores: u32,
    /// Cores of one Postgres server.
    #[arg(long, default_value_t = 16)]
    pub(super) database_cores: u32,
    /// MB of WAL per second that one server writes and ships to its standby.
    #[arg(long, default_value_t = 200)]
    pub(super) wal_mb_per_s: u32,
    /// Cores of one broker.
    #[arg(long, default_value_t = 8)]
    pub(super) broker_cores: u32,
    /// MB per second of one broker's network, in and out.
    #[arg(long, default_value_t = 500)]
    pub(super) broker_mb_per_s: u32,
    /// Copies of each message.
    #[arg(long, default_value_t = 3)]
    pub(super) replication: u32,
    /// Days that the topic keeps messages.
    #[arg(long, default_value_t = 7)]
    pub(super) topic_days: u32,
    /// How long the provider takes for a charge.
    #[arg(long, default_value_t = 300)]
    pub(super) provider_ms: u32,
    /// How long the mail server takes for a mail.
    #[arg(long, default_value_t = 50)]
    pub(super) mail_ms: u32,
}

impl Assumptions {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.utilisation > 0.0 && self.utilisation <= 1.0,
            "--utilisation must be above 0 and at most 1"
        );
        let counts = [
            self.replica_cores,
            self.database_cores,
            self.wal_mb_per_s,
            self.broker_cores,
            self.broker_mb_per_s,
            self.replication,
            self.topic_days,
            self.provider_ms,
            self.mail_ms,
        ];
        ensure!(
            counts.iter().all(|count| *count > 0),
            "every assumption must be above 0"
        );
        Ok(())
    }

    /// One line each, for the report.
    pub(super) fn lines(&self) -> Vec<String> {
        vec![
            format!(
                "a machine is used to {:.0} %; costs per order stay as measured",
                self.utilisation * 100.0
            ),
            format!(
                "a replica has {} cores, a Postgres server {} cores and {} MB/s of WAL",
                self.replica_cores, self.database_cores, self.wal_mb_per_s
            ),
            format!(
                "a broker has {} cores and {} MB/s; messages have {} copies for {} days",
                self.broker_cores, self.broker_mb_per_s, self.replication, self.topic_days
            ),
            format!(
                "a charge takes {} ms and a mail {} ms",
                self.provider_ms, self.mail_ms
            ),
            "every order ships: no declines, refunds or cancellations".to_owned(),
            "the mock provider and its database are left out: a real provider brings its own"
                .to_owned(),
        ]
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::capacity) fn defaults() -> Assumptions {
        Assumptions {
            utilisation: 0.5,
            replica_cores: 2,
            database_cores: 16,
            wal_mb_per_s: 200,
            broker_cores: 8,
            broker_mb_per_s: 500,
            replication: 3,
            topic_days: 7,
            provider_ms: 300,
            mail_ms: 50,
        }
    }

    #[test]
    fn impossible_assumptions_are_errors() {
        defaults().check().unwrap();
        let breaks: [fn(&mut Assumptions); 3] = [
            |it| it.utilisation = 0.0,
            |it| it.utilisation = 1.1,
            |it| it.broker_cores = 0,
        ];
        for break_it in breaks {
            let mut assumptions = defaults();
            break_it(&mut assumptions);
            assumptions.check().unwrap_err();
        }
    }
}
