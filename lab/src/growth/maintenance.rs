//! What the reapers cost while the orders came in: expired rows, and partitions of the outbox.

use serde::Serialize;

use super::report::per;
use crate::bench::costs::{Costs, StatementCosts};
use crate::bench::per_order::shortened;
use crate::bench::spread::rounded;

/// Parts of statements that only maintenance sends. Each round of a reaper sends some of them, whether or not there is
/// something to remove.
const PARTS: [&str; 13] = [
    "delete from idempotency_keys where ctid",
    "delete from processed_messages where ctid",
    "delete from outbox_positions",
    "delete from reconciliations",
    "outbox_default",
    "pg_inherits",
    "pg_advisory_xact_lock('outbox'",
    "exists (select from outbox_until_",
    "exists (select from outbox_expired",
    "lock table only outbox",
    "drop table outbox_",
    "create table outbox_",
    "attach partition outbox_",
];
/// Names of partitions end with a time.
const PARTITION_PREFIX: &str = "outbox_until_";

#[derive(Debug, Serialize)]
pub(super) struct Maintenance {
    /// Of all statements, per new order.
    pub(super) ms: f64,
    pub(super) buffers: f64,
    pub(super) wal_bytes: f64,
    pub(super) statements: Vec<Statement>,
}

/// The whole cost of one statement, over all services and partitions.
#[derive(Debug, Serialize)]
pub(super) struct Statement {
    pub(super) statement: String,
    pub(super) calls: f64,
    pub(super) ms: f64,
    /// Rows that it removed or returned.
    pub(super) rows: f64,
    pub(super) buffers: f64,
    pub(super) wal_bytes: f64,
}

pub(super) fn is_maintenance(statement: &str) -> bool {
    PARTS.iter().any(|part| statement.contains(part))
}

impl Maintenance {
    pub(super) fn of(costs: &Costs, orders: u64) -> Self {
        let mut statements: Vec<Statement> = Vec::new();
        let mut all = StatementCosts::default();
        for ((_, text), cost) in &costs.statements {
            if cost.calls == 0.0 || !is_maintenance(text) {
                continue;
            }
            all.ms += cost.ms;
            all.buffers += cost.buffers;
            all.wal_bytes += cost.wal_bytes;
            let text = without_times(&shortened(text));
            match statements.iter_mut().find(|it| it.statement == text) {
                Some(known) => known.add(cost),
                None => {
                    let mut new = Statement::new(text);
                    new.add(cost);
                    statements.push(new);
                }
            }
        }
        statements.sort_by(|a, b| b.ms.total_cmp(&a.ms));
        Self {
            ms: per(all.ms, orders),
            buffers: per(all.buffers, orders),
            wal_bytes: per(all.wal_bytes, orders),
            statements,
        }
    }
}

impl Statement {
    fn new(statement: String) -> Self {
        Self {
            statement,
            calls: 0.0,
            ms: 0.0,
            rows: 0.0,
            buffers: 0.0,
            wal_bytes: 0.0,
        }
    }

    fn add(&mut self, cost: &StatementCosts) {
        self.calls += cost.calls;
        self.ms = rounded(self.ms + cost.ms);
        self.rows += cost.rows;
        self.buffers += cost.buffers;
        self.wal_bytes += cost.wal_bytes;
    }
}

/// The statement without the times in the names of partitions, so that those of several partitions are one.
fn without_times(statement: &str) -> String {
    let mut parts = statement.split(PARTITION_PREFIX);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text += PARTITION_PREFIX;
        text += "…";
        text += part.trim_start_matches(|it: char| it.is_ascii_digit() || it == 't');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_several_partitions_are_one() {
        assert_eq!(
            without_times("drop table outbox_until_20260101t000000"),
            "drop table outbox_until_…"
        );
        let cost = StatementCosts {
            calls: 1.0,
            ms: 2.0,
            rows: 3.0,
            buffers: 40.0,
            ..StatementCosts::default()
        };
        let statements = [
            ("order", "drop table outbox_until_20260101t000000"),
            ("payment", "drop table outbox_until_20260102t000000"),
            ("order", "select 1"),
        ];
        let costs = Costs {
            statements: statements
                .map(|(database, text)| ((database.to_owned(), text.to_owned()), cost))
                .into(),
            ..Costs::default()
        };
        let maintenance = Maintenance::of(&costs, 10);
        assert_eq!(maintenance.statements.len(), 1);
        assert_eq!(maintenance.statements[0].calls, 2.0);
        assert_eq!(maintenance.statements[0].rows, 6.0);
        assert_eq!(maintenance.buffers, 8.0);
    }
}
