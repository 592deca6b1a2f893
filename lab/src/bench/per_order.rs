//! What one order costs: CPU time per process, log, rows, round trips, commits and disk space.

mod sizes;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::costs::Costs;
use super::spread::{Spread, rounded};
use crate::measure::usage::LAB;

pub(crate) use sizes::{Sizes, sizes};

/// How many statements the report lists, the most expensive first.
const STATEMENTS_MAX: usize = 30;
/// Characters of a statement that the report shows.
const STATEMENT_CHARS_MAX: usize = 160;

/// Medians and spreads are over the runs of `end_to_end`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PerOrder {
    pub(crate) orders: u64,
    /// Of all processes but the load generator.
    pub(crate) cpu_us: Spread,
    pub(crate) cpu_us_by_process: BTreeMap<String, Spread>,
    pub(crate) wal_bytes: Spread,
    pub(crate) wal_records: Spread,
    pub(crate) rows_written: Spread,
    /// Statements that a service sent, BEGIN and COMMIT included.
    pub(crate) round_trips: Spread,
    pub(crate) commits: Spread,
    pub(crate) by_database: BTreeMap<String, DatabasePerOrder>,
    pub(crate) statements: Vec<StatementPerOrder>,
    /// Growth of each table with its indexes, as `database.table`.
    pub(crate) disk_bytes: BTreeMap<String, f64>,
    /// Growth of Kafka's log, one copy. Unknown for a broker that the lab did not start.
    pub(crate) kafka_bytes: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DatabasePerOrder {
    pub(crate) rows_written: f64,
    pub(crate) round_trips: f64,
    pub(crate) commits: f64,
    /// Time inside statements.
    pub(crate) statement_us: f64,
    pub(crate) wal_bytes: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StatementPerOrder {
    pub(crate) database: String,
    pub(crate) statement: String,
    pub(crate) calls: f64,
    pub(crate) us: f64,
    pub(crate) rows: f64,
    pub(crate) wal_bytes: f64,
}

impl PerOrder {
    /// From the orders and costs of each run. `None` without a run.
    pub(super) fn of(runs: &[(u64, &Costs)], sizes: &Sizes) -> Option<Self> {
        let orders: u64 = runs.iter().map(|(orders, _)| orders).sum();
        let spread = |figure: &dyn Fn(&Costs) -> f64| {
            let per_order = runs
                .iter()
                .map(|(orders, costs)| figure(costs) / (*orders).max(1) as f64);
            Spread::of(per_order)
        };
        let mut cpu_us_by_process = BTreeMap::new();
        for name in runs.iter().flat_map(|(_, costs)| costs.cpu_s.keys()) {
            let of_process =
                |costs: &Costs| costs.cpu_s.get(name).copied().unwrap_or_default() * 1e6;
            cpu_us_by_process.insert(name.clone(), spread(&of_process)?);
        }
        let of_databases = |figure: fn(&super::costs::DatabaseCosts) -> f64| {
            move |costs: &Costs| costs.databases.values().map(figure).sum()
        };
        let per_order = |value: f64| rounded(value / orders.max(1) as f64);
        Some(Self {
            orders,
            cpu_us: spread(&|costs| system_cpu_s(costs) * 1e6)?,
            cpu_us_by_process,
            wal_bytes: spread(&|costs| costs.wal_bytes)?,
            wal_records: spread(&|costs| costs.wal_records)?,
            rows_written: spread(&of_databases(|costs| costs.rows_written))?,
            round_trips: spread(&|costs| costs.statements.values().map(|it| it.calls).sum())?,
            commits: spread(&of_databases(|costs| costs.commits))?,
            by_database: by_database(runs, per_order),
            statements: statements(runs, per_order),
            disk_bytes: sizes
                .tables
                .iter()
                .map(|(table, bytes)| (table.clone(), per_order(*bytes)))
                .collect(),
            kafka_bytes: sizes.kafka_bytes.map(per_order),
        })
    }
}

pub(crate) fn system_cpu_s(costs: &Costs) -> f64 {
    let system = costs.cpu_s.iter().filter(|(name, _)| *name != LAB);
    system.map(|(_, cpu_s)| cpu_s).sum()
}

fn by_database(
    runs: &[(u64, &Costs)],
    per_order: impl Fn(f64) -> f64,
) -> BTreeMap<String, DatabasePerOrder> {
    let mut all: BTreeMap<String, DatabasePerOrder> = BTreeMap::new();
    for (_, costs) in runs {
        for (name, database) in &costs.databases {
            let sum = all.entry(name.clone()).or_default();
            sum.rows_written += database.rows_written;
            sum.commits += database.commits;
        }
        for ((name, _), statement) in &costs.statements {
            let sum = all.entry(name.clone()).or_default();
            sum.round_trips += statement.calls;
            sum.statement_us += statement.ms * 1e3;
            sum.wal_bytes += statement.wal_bytes;
        }
    }
    for sum in all.values_mut() {
        *sum = DatabasePerOrder {
            rows_written: per_order(sum.rows_written),
            round_trips: per_order(sum.round_trips),
            commits: per_order(sum.commits),
            statement_us: per_order(sum.statement_us),
            wal_bytes: per_order(sum.wal_bytes),
        };
    }
    all
}

fn statements(runs: &[(u64, &Costs)], per_order: impl Fn(f64) -> f64) -> Vec<StatementPerOrder> {
    let mut sums: BTreeMap<&(String, String), super::costs::StatementCosts> = BTreeMap::new();
    for (key, statement) in runs.iter().flat_map(|(_, costs)| &costs.statements) {
        let sum = sums.entry(key).or_default();
        sum.calls += statement.calls;
        sum.ms += statement.ms;
        sum.rows += statement.rows;
        sum.wal_bytes += statement.wal_bytes;
    }
    let mut all: Vec<StatementPerOrder> = sums
        .into_iter()
        .filter(|(_, sum)| sum.calls > 0.0)
        .map(|((database, text), sum)| StatementPerOrder {
            database: database.clone(),
            statement: shortened(text),
            calls: per_order(sum.calls),
            us: per_order(sum.ms * 1e3),
            rows: per_order(sum.rows),
            wal_bytes: per_order(sum.wal_bytes),
        })
        .collect();
    all.sort_by(|a, b| b.us.total_cmp(&a.us));
    all.truncate(STATEMENTS_MAX);
    all
}

/// On one line, without comment lines, cut to a readable length.
pub(crate) fn shortened(statement: &str) -> String {
    let lines = statement
        .lines()
        .filter(|line| !line.trim_start().starts_with("--"));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let text = words.join(" ");
    match text.char_indices().nth(STATEMENT_CHARS_MAX) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::costs::{DatabaseCosts, StatementCosts};

    fn costs(cpu_s: f64, calls: f64) -> Costs {
        let key = ("order".to_owned(), "select 1".to_owned());
        let statement = StatementCosts {
            calls,
            ms: 5.0,
            rows: 10.0,
            wal_bytes: 1_000.0,
            ..StatementCosts::default()
        };
        let database = DatabaseCosts {
            rows_written: 40.0,
            commits: 20.0,
        };
        Costs {
            cpu_s: [("order".to_owned(), cpu_s), (LAB.to_owned(), 99.0)].into(),
            wal_bytes: 5_000.0,
            wal_records: 50.0,
            databases: [("order".to_owned(), database)].into(),
            statements: [(key, statement)].into(),
        }
    }

    #[test]
    fn figures_are_per_order_and_without_the_generator() {
        let (first, second) = (costs(0.01, 20.0), costs(0.03, 40.0));
        let sizes = Sizes {
            tables: [("order.orders".to_owned(), 6_000.0)].into(),
            kafka_bytes: Some(300.0),
        };
        let per_order = PerOrder::of(&[(10, &first), (20, &second)], &sizes).unwrap();
        assert_eq!(per_order.orders, 30);
        assert_eq!(per_order.cpu_us.pairs, [1_000.0, 1_500.0]);
        assert_eq!(per_order.round_trips.pairs, [2.0, 2.0]);
        assert_eq!(per_order.rows_written.pairs, [4.0, 2.0]);
        assert_eq!(per_order.by_database["order"].round_trips, 2.0);
        assert_eq!(per_order.statements[0].calls, 2.0);
        assert_eq!(per_order.disk_bytes["order.orders"], 200.0);
        assert_eq!(per_order.kafka_bytes, Some(10.0));
        assert!(PerOrder::of(&[], &sizes).is_none());
    }

    #[test]
    fn statement_is_one_short_line() {
        assert_eq!(shortened("-- why\nselect 1,\n   2"), "select 1, 2");
        let long = "é".repeat(400);
        assert_eq!(shortened(&long).chars().count(), STATEMENT_CHARS_MAX + 2);
    }
}
