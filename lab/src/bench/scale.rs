//! How long and how often to measure.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The sizes of one run. They are part of the report: figures of runs of different sizes cannot be compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scale {
    pub(crate) name: String,
    /// Pairs per ratio.
    pub(crate) pairs: usize,
    pub(crate) catch_up_pairs: usize,
    /// Clients of pgbench and of the closed loops.
    pub(crate) clients: usize,
    /// More clients than the system can serve.
    pub(crate) overload_clients: usize,
    pub(crate) warm_up_s: u64,
    pub(crate) pgbench_s: u64,
    pub(crate) intake_s: u64,
    pub(crate) end_to_end_s: u64,
    /// Events that each drain of the relay and of bare SQL publishes.
    pub(crate) relay_events: u32,
    pub(crate) idle_s: u64,
    pub(crate) idle_rate_per_s: f64,
    pub(crate) busy_s: u64,
    /// Orders that are accepted while payment is down: enough that the start of the process is a small part of the time.
    pub(crate) backlog_orders: u64,
}

impl Scale {
    /// About ten minutes: for figures that are committed.
    pub(crate) fn full() -> Self {
        Self {
            name: "full".to_owned(),
            pairs: 5,
            catch_up_pairs: 5,
            clients: 64,
            overload_clients: 256,
            warm_up_s: 5,
            pgbench_s: 5,
            intake_s: 4,
            end_to_end_s: 10,
            relay_events: 20_000,
            idle_s: 8,
            idle_rate_per_s: 10.0,
            busy_s: 10,
            backlog_orders: 20_000,
        }
    }

    /// About three minutes.
    pub(crate) fn quick() -> Self {
        Self {
            name: "quick".to_owned(),
            pairs: 3,
            catch_up_pairs: 2,
            warm_up_s: 2,
            pgbench_s: 3,
            intake_s: 2,
            end_to_end_s: 5,
            relay_events: 10_000,
            idle_s: 4,
            busy_s: 5,
            backlog_orders: 12_000,
            ..Self::full()
        }
    }

    /// Seconds: shows that everything works, and measures nothing. For the test.
    pub(crate) fn smoke() -> Self {
        Self {
            name: "smoke".to_owned(),
            pairs: 1,
            catch_up_pairs: 1,
            clients: 4,
            overload_clients: 16,
            warm_up_s: 0,
            pgbench_s: 1,
            intake_s: 0,
            end_to_end_s: 1,
            relay_events: 600,
            idle_s: 1,
            busy_s: 1,
            backlog_orders: 300,
            ..Self::full()
        }
    }

    pub(crate) fn warm_up(&self) -> Duration {
        Duration::from_secs(self.warm_up_s)
    }

    pub(crate) fn intake(&self) -> Duration {
        // The smallest run still needs some orders.
        Duration::from_secs(self.intake_s).max(Duration::from_millis(200))
    }

    pub(crate) fn end_to_end(&self) -> Duration {
        Duration::from_secs(self.end_to_end_s)
    }

    pub(crate) fn idle(&self) -> Duration {
        Duration::from_secs(self.idle_s)
    }

    pub(crate) fn busy(&self) -> Duration {
        Duration::from_secs(self.busy_s)
    }
}
