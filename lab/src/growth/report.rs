//! What an order costs at each size, and how it compares with the smallest size. `--json` writes this.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::maintenance::{Maintenance, is_maintenance};
use crate::bench::costs::{Costs, StatementCosts};
use crate::bench::machine::Machine;
use crate::bench::per_order::{shortened, system_cpu_s};
use crate::bench::spread::rounded;

/// A statement is listed if its cost per order grew by more than this.
const GROWN_BUFFERS_MIN: f64 = 0.5;
const GROWN_WAL_BYTES_MIN: f64 = 100.0;
const GROWN_MAX: usize = 8;
/// Part of the statement that stores new orders.
const INTAKE: &str = "insert into idempotency_keys";

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) machine: Machine,
    /// Settings of the services.
    pub(super) retention: BTreeMap<&'static str, i64>,
    pub(super) clients: usize,
    pub(super) sizes: Vec<SizeResult>,
    pub(super) command: String,
    pub(super) started_at: DateTime<Utc>,
    pub(super) seconds: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct SizeResult {
    #[serde(flatten)]
    pub(super) filled: Filled,
    /// New orders, and repeated requests.
    pub(super) measured_orders: u64,
    pub(super) per_order: Figures,
    pub(super) cpu_us_by_process: BTreeMap<String, f64>,
    /// To the smallest size; 1 there.
    pub(super) ratios: Figures,
    pub(super) maintenance: Maintenance,
    pub(super) replay: Replay,
    /// Statements that cost more per order than at the smallest size: most buffers first, then most WAL.
    pub(super) grown: Vec<Grown>,
    #[serde(skip)]
    statements: BTreeMap<(String, String), StatementCosts>,
}

#[derive(Debug, Serialize)]
pub(super) struct Filled {
    pub(super) orders: u64,
    /// Orders whose keys, messages and events are kept.
    pub(super) window_orders: u64,
    /// All tables with their indexes.
    pub(super) table_bytes: f64,
    pub(super) seconds: f64,
    /// Whether all orders were checked, filled ones included. If one were violated, there would be no report.
    pub(super) invariants: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Figures {
    /// Of all processes but the load generator.
    pub(super) cpu_us: f64,
    /// Everything that Postgres logged.
    pub(super) wal_bytes: f64,
    /// Of the services' statements.
    pub(super) wal_records: f64,
    /// Whole pages among them.
    pub(super) wal_pages: f64,
    /// Shared buffers that the services' statements read, from the cache or from disk.
    pub(super) buffers: f64,
    pub(super) rows_written: f64,
    pub(super) round_trips: f64,
}

/// The cost of a repeated request.
#[derive(Debug, Serialize)]
pub(super) struct Replay {
    pub(super) per_replay: Figures,
    /// To a new order, from the request to the receipt.
    pub(super) ratios: Figures,
    /// Buffers of a replay, relative to those of the statement that stores a new order.
    pub(super) buffers_to_intake: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Grown {
    pub(super) database: String,
    pub(super) statement: String,
    /// At the smallest size, and at this one.
    pub(super) buffers: (f64, f64),
    pub(super) wal_bytes: (f64, f64),
}

impl SizeResult {
    pub(super) fn of(filled: Filled, orders: u64, costs: &Costs, replays: &Costs) -> Self {
        let per_order = Figures::of(costs, orders);
        let per_replay = Figures::of(replays, orders);
        let per_process = costs.cpu_s.iter();
        let cpu_us_by_process = per_process
            .map(|(name, cpu_s)| (name.clone(), per(cpu_s * 1e6, orders)))
            .collect();
        let intake = costs.statements.iter();
        let intake = intake.filter(|((_, text), _)| text.contains(INTAKE));
        let intake: f64 = intake.map(|(_, statement)| statement.buffers).sum();
        let replayed = per_replay.buffers;
        Self {
            filled,
            measured_orders: orders,
            per_order,
            cpu_us_by_process,
            ratios: per_order.over(&per_order),
            maintenance: Maintenance::of(costs, orders),
            replay: Replay {
                ratios: per_replay.over(&per_order),
                buffers_to_intake: ratio(replayed, per(intake, orders)),
                per_replay,
            },
            grown: Vec::new(),
            statements: costs.statements.clone(),
        }
    }

    pub(super) fn compare_with(&mut self, smallest: &SizeResult) {
        self.ratios = self.per_order.over(&smallest.per_order);
        let queries = self.statements.keys();
        let queries = queries.filter(|(_, text)| !is_maintenance(text));
        let grown: Vec<Grown> = queries.map(|key| self.grown(smallest, key)).collect();
        let listed = |grew: fn(&Grown) -> f64, least: f64| {
            let mut listed: Vec<&Grown> = grown.iter().filter(|it| grew(it) > least).collect();
            listed.sort_by(|a, b| grew(b).total_cmp(&grew(a)));
            listed.truncate(GROWN_MAX);
            listed
        };
        let mut all = listed(Grown::buffers_grew, GROWN_BUFFERS_MIN);
        let wal = listed(Grown::wal_bytes_grew, GROWN_WAL_BYTES_MIN);
        all.extend(
            wal.into_iter()
                .filter(|it| it.buffers_grew() <= GROWN_BUFFERS_MIN),
        );
        self.grown = all.into_iter().cloned().collect();
    }

    fn grown(&self, smallest: &SizeResult, key: &(String, String)) -> Grown {
        let both = |figure: fn(&StatementCosts) -> f64| {
            let of = |size: &SizeResult| {
                let cost = size.statements.get(key).map_or(0.0, figure);
                per(cost, size.measured_orders)
            };
            (of(smallest), of(self))
        };
        Grown {
            database: key.0.clone(),
            statement: shortened(&key.1),
            buffers: both(|it| it.buffers),
            wal_bytes: both(|it| it.wal_bytes),
        }
    }
}

impl Grown {
    fn buffers_grew(&self) -> f64 {
        self.buffers.1 - self.buffers.0
    }

    fn wal_bytes_grew(&self) -> f64 {
        self.wal_bytes.1 - self.wal_bytes.0
    }
}

impl Figures {
    fn of(costs: &Costs, orders: u64) -> Self {
        let statements =
            |figure: fn(&StatementCosts) -> f64| costs.statements.values().map(figure).sum::<f64>();
        let rows: f64 = costs.databases.values().map(|it| it.rows_written).sum();
        Self {
            cpu_us: per(system_cpu_s(costs) * 1e6, orders),
            wal_bytes: per(costs.wal_bytes, orders),
            wal_records: per(statements(|it| it.wal_records), orders),
            wal_pages: per(statements(|it| it.wal_pages), orders),
            buffers: per(statements(|it| it.buffers), orders),
            rows_written: per(rows, orders),
            round_trips: per(statements(|it| it.calls), orders),
        }
    }

    fn over(&self, other: &Figures) -> Self {
        Self {
            cpu_us: ratio(self.cpu_us, other.cpu_us),
            wal_bytes: ratio(self.wal_bytes, other.wal_bytes),
            wal_records: ratio(self.wal_records, other.wal_records),
            wal_pages: ratio(self.wal_pages, other.wal_pages),
            buffers: ratio(self.buffers, other.buffers),
            rows_written: ratio(self.rows_written, other.rows_written),
            round_trips: ratio(self.round_trips, other.round_trips),
        }
    }
}

pub(super) fn per(value: f64, orders: u64) -> f64 {
    rounded(value / orders.max(1) as f64)
}

fn ratio(value: f64, to: f64) -> f64 {
    if to == 0.0 { 0.0 } else { rounded(value / to) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const QUERY: &str = "select 1 from orders";

    pub(in crate::growth) fn size(orders: u64, buffers: f64) -> SizeResult {
        let statement = |buffers, wal_records| StatementCosts {
            calls: 100.0,
            buffers,
            wal_records,
            ..StatementCosts::default()
        };
        let key = |text: &str| ("order".to_owned(), text.to_owned());
        let costs = Costs {
            cpu_s: [("order".to_owned(), 0.2)].into(),
            wal_bytes: 900_000.0,
            statements: [
                (key(QUERY), statement(buffers, 0.0)),
                (
                    key("insert into idempotency_keys"),
                    statement(2_000.0, 800.0),
                ),
                (
                    key("drop table outbox_until_20260101t000000"),
                    statement(300.0, 10.0),
                ),
            ]
            .into(),
            ..Costs::default()
        };
        let replays = Costs {
            statements: [(key(QUERY), statement(500.0, 0.0))].into(),
            ..Costs::default()
        };
        let filled = Filled {
            orders,
            window_orders: 500,
            table_bytes: orders as f64 * 4_000.0,
            seconds: 1.0,
            invariants: true,
        };
        SizeResult::of(filled, 100, &costs, &replays)
    }

    #[test]
    fn figures_are_per_order_and_compared_with_the_smallest() {
        let small = size(1_000, 7_700.0);
        let mut large = size(100_000, 8_700.0);
        large.compare_with(&small);
        assert_eq!(
            (small.per_order.buffers, large.per_order.buffers),
            (100.0, 110.0)
        );
        assert_eq!((small.ratios.buffers, large.ratios.buffers), (1.0, 1.1));
        assert_eq!(
            (large.ratios.wal_bytes, large.per_order.cpu_us),
            (1.0, 2_000.0)
        );
        assert_eq!(large.per_order.wal_records, 8.1);
        assert_eq!(large.grown.len(), 1);
        assert_eq!(large.grown[0].buffers, (77.0, 87.0));
    }

    #[test]
    fn replay_is_compared_with_an_order_and_its_intake() {
        let replay = size(1_000, 7_700.0).replay;
        assert_eq!(replay.per_replay.buffers, 5.0);
        assert_eq!(replay.ratios.buffers, 0.05);
        assert_eq!(replay.buffers_to_intake, 0.25);
    }
}
