//! The report of a run. It is what `--json` writes and what `--against` and `lab capacity` read.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::catch_up::CatchUp;
use super::end_to_end::Throughput;
use super::latency::Latency;
use super::machine::Machine;
use super::memory::Memory;
use super::overload::Overload;
pub(crate) use super::per_order::{DatabasePerOrder, PerOrder};
use super::ratio::{Ratio, RatioResult};
use super::scale::Scale;
use super::spread::Spread;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) ratios: BTreeMap<Ratio, RatioResult>,
    /// Why a ratio is missing.
    #[serde(default)]
    pub(crate) absent: BTreeMap<Ratio, String>,
    pub(crate) machine: Machine,
    pub(crate) per_order: Option<PerOrder>,
    pub(crate) throughput: Option<Throughput>,
    pub(crate) latency: Option<Latency>,
    #[serde(default)]
    pub(crate) catch_up: Vec<CatchUp>,
    pub(crate) overload: Option<Overload>,
    pub(crate) memory: Memory,
    /// Orders of all runs. Each has exactly one charge in the provider's books.
    pub(crate) orders: u64,
    pub(crate) scale: Scale,
    pub(crate) command: String,
    pub(crate) started_at: DateTime<Utc>,
    pub(crate) seconds: f64,
}

impl Report {
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} is not a report of lab bench", path.display()))
    }

    /// Events per second of one relay.
    pub(crate) fn relay_per_s(&self) -> Option<f64> {
        let measured = &self.ratios.get(&Ratio::Relay)?.measured;
        Some(Spread::of(measured.iter().copied())?.median)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::measure::percentiles::Percentiles;

    fn spread(values: &[f64]) -> Spread {
        Spread::of(values.iter().copied()).unwrap()
    }

    fn percentiles(p50_ms: f64) -> Percentiles {
        Percentiles {
            count: 100,
            p50_ms,
            p95_ms: p50_ms * 2.0,
            p99_ms: p50_ms * 3.0,
            max_ms: p50_ms * 4.0,
        }
    }

    pub(crate) fn per_order() -> PerOrder {
        let processes = [
            ("order", 125.0),
            ("payment", 107.0),
            ("fulfilment", 60.0),
            ("receipt", 54.0),
            ("psp", 58.0),
            ("kafka", 173.0),
            ("postgres", 476.0),
        ];
        let databases = ["order", "payment", "fulfilment", "receipt", "psp"];
        PerOrder {
            orders: 1_000,
            cpu_us: spread(&[1_053.0]),
            cpu_us_by_process: processes
                .map(|(name, us)| (name.to_owned(), spread(&[us])))
                .into(),
            wal_bytes: spread(&[9_600.0]),
            wal_records: spread(&[83.0]),
            rows_written: spread(&[25.0]),
            round_trips: spread(&[3.0]),
            commits: spread(&[1.5]),
            by_database: databases
                .map(|name| {
                    let database = DatabasePerOrder {
                        statement_us: 50.0,
                        wal_bytes: 1_900.0,
                        ..Default::default()
                    };
                    (name.to_owned(), database)
                })
                .into(),
            statements: Vec::new(),
            disk_bytes: [
                ("order.orders".to_owned(), 400.0),
                ("order.outbox".to_owned(), 1_200.0),
                ("payment.processed_messages".to_owned(), 300.0),
            ]
            .into(),
            kafka_bytes: Some(3_000.0),
        }
    }

    /// A small report with every part.
    pub(crate) fn sample() -> Report {
        let intake = Ratio::Intake.result(&[(150.0, 100.0), (160.0, 100.0), (170.0, 100.0)]);
        let latency = Ratio::Latency.result(&[(40.0, 20.0)]);
        Report {
            ratios: [
                (Ratio::Intake, intake.unwrap()),
                (Ratio::Latency, latency.unwrap()),
            ]
            .into(),
            absent: [(Ratio::Price, "not built <yet>".to_owned())].into(),
            machine: Machine {
                cpu: "CPU <fast> & \"cheap\"".to_owned(),
                cores: 2,
                ..Machine::default()
            },
            per_order: Some(per_order()),
            throughput: None,
            latency: Some(Latency {
                idle_rate_per_s: 10.0,
                idle: percentiles(20.0),
                busy_rate_per_s: 500.0,
                busy: percentiles(40.0),
                generator_late: percentiles(0.1),
            }),
            catch_up: Vec::new(),
            overload: None,
            memory: Memory {
                at_s: vec![0.0, 2.0],
                mib: [("order".to_owned(), vec![10.0, 12.0])].into(),
                phases: Vec::new(),
            },
            orders: 1_000,
            scale: Scale::quick(),
            command: "lab bench --quick".to_owned(),
            started_at: DateTime::UNIX_EPOCH,
            seconds: 180.0,
        }
    }

    #[test]
    fn json_has_the_documented_shape_and_can_be_read() {
        let report = sample();
        let json = serde_json::to_value(&report).unwrap();
        let intake = &json["ratios"]["intake"];
        assert_eq!(intake["median"], 1.6);
        assert_eq!((&intake["min"], &intake["max"]), (&1.5.into(), &1.7.into()));
        assert_eq!(intake["pairs"], serde_json::json!([1.5, 1.6, 1.7]));
        assert_eq!(intake["measured"], serde_json::json!([150.0, 160.0, 170.0]));
        assert!(json["ratios"].get("price").is_none());
        assert_eq!(json["absent"]["price"], "not built <yet>");
        assert_eq!(json["per_order"]["wal_bytes"]["median"], 9_600.0);
        assert_eq!(json["machine"]["cores"], 2);
        let read: Report = serde_json::from_value(json).unwrap();
        assert_eq!(read, report);
    }
}
