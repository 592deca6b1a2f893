//! What one rate needs.

use std::collections::BTreeMap;

use anyhow::Context;
use endpoints::Service;

use super::assumptions::Assumptions;
use crate::bench::report::Report;

/// The services that are ours to scale.
pub(super) const SERVICES: [Service; 4] = [
    Service::Order,
    Service::Payment,
    Service::Fulfilment,
    Service::Receipt,
];
/// Two, so that one may die.
const REPLICAS_MIN: u64 = 2;
const BROKERS_MIN: u64 = 3;
/// Partitions per replica of the largest consumer: a rebalance then spreads them evenly, and replicas can be added.
pub(super) const PARTITIONS_PER_REPLICA: u32 = 2;
/// Defaults of the services: concurrent calls and connections of one replica, and how long tables keep rows.
pub(super) const PSP_IN_FLIGHT_MAX: f64 = 1_024.0;
pub(super) const SMTP_CONNECTIONS_MAX: f64 = 32.0;
const WINDOWS: [(&str, f64); 3] = [
    ("idempotency_keys", 86_400.0),
    ("outbox", 604_800.0),
    ("processed_messages", 2_592_000.0),
];
pub(super) const DAY_S: f64 = 86_400.0;

/// Costs per order, taken from a report.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Costs {
    /// CPU of each service's own process.
    pub(super) service_us: BTreeMap<Service, f64>,
    /// Postgres for each service's database: CPU and WAL.
    pub(super) database_us: BTreeMap<Service, f64>,
    pub(super) wal_bytes: BTreeMap<Service, f64>,
    pub(super) kafka_us: f64,
    pub(super) kafka_bytes: f64,
    /// Bytes that stay.
    pub(super) kept_bytes: f64,
    /// Bytes that stay for a window: bytes and seconds.
    pub(super) windowed: Vec<(f64, f64)>,
    /// Events per second of one relay.
    pub(super) relay_per_s: Option<f64>,
}

impl Costs {
    pub(super) fn of(report: &Report) -> anyhow::Result<Self> {
        let per_order = report.per_order.as_ref();
        let per_order = per_order
            .context("the report has no costs per order: run `lab bench` with end_to_end")?;
        let cpu_us = |name: &str| {
            let process = per_order.cpu_us_by_process.get(name);
            process.map_or(0.0, |spread| spread.median)
        };
        let database = |service: Service| per_order.by_database.get(service.name());
        let total = |figure: fn(&crate::bench::report::DatabasePerOrder) -> f64| {
            per_order
                .by_database
                .values()
                .map(figure)
                .sum::<f64>()
                .max(f64::EPSILON)
        };
        let (all_us, all_wal) = (total(|it| it.statement_us), total(|it| it.wal_bytes));
        let of_each = |figure: &dyn Fn(Service) -> f64| {
            SERVICES.map(|service| (service, figure(service))).into()
        };
        // Postgres counts CPU per server. Each database gets the share of its statements.
        let us_share = |service| database(service).map_or(0.0, |it| it.statement_us) / all_us;
        let wal_share = |service| database(service).map_or(0.0, |it| it.wal_bytes) / all_wal;
        let mut costs = Self {
            service_us: of_each(&|service| cpu_us(service.name())),
            database_us: of_each(&|service| cpu_us("postgres") * us_share(service)),
            wal_bytes: of_each(&|service| per_order.wal_bytes.median * wal_share(service)),
            kafka_us: cpu_us("kafka"),
            kafka_bytes: per_order.kafka_bytes.unwrap_or_default(),
            kept_bytes: 0.0,
            windowed: Vec::new(),
            relay_per_s: report.relay_per_s(),
        };
        for (table, bytes) in &per_order.disk_bytes {
            costs.add_table(table, *bytes);
        }
        Ok(costs)
    }

    fn add_table(&mut self, table: &str, bytes: f64) {
        let (database, name) = table.split_once('.').unwrap_or_default();
        if database == Service::Psp.name() {
            return;
        }
        match WINDOWS.iter().find(|(windowed, _)| *windowed == name) {
            Some((_, seconds)) => self.windowed.push((bytes, *seconds)),
            None => self.kept_bytes += bytes,
        }
    }
}

/// What one rate needs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Demand {
    pub(super) rate_per_s: f64,
    pub(super) replicas: BTreeMap<Service, u64>,
    pub(super) partitions: u64,
    pub(super) brokers: u64,
    /// Servers per service; 1 for all services together if they fit on one.
    pub(super) servers: BTreeMap<Service, u64>,
    pub(super) is_one_server: bool,
    pub(super) wal_gb_per_day: f64,
    pub(super) kept_gb_per_day: f64,
    /// What the windows hold once they are full.
    pub(super) windowed_gb: f64,
    pub(super) kafka_gb: f64,
}

impl Demand {
    pub(super) fn of(rate_per_s: f64, costs: &Costs, assumptions: &Assumptions) -> Self {
        let replicas: BTreeMap<Service, u64> = SERVICES
            .map(|service| (service, replicas(service, rate_per_s, costs, assumptions)))
            .into();
        // Every service consumes, so the largest one decides.
        let consumers = replicas.values().copied().max().unwrap_or(REPLICAS_MIN);
        let all = fullness(rate_per_s, SERVICES.iter(), costs, assumptions);
        let is_one_server = all <= 1.0;
        let servers = SERVICES.map(|service| {
            let of_service = fullness(rate_per_s, [&service].into_iter(), costs, assumptions);
            (service, units(of_service, 1))
        });
        let gb = |bytes_per_order: f64, seconds: f64| rate_per_s * bytes_per_order * seconds / 1e9;
        let wal: f64 = costs.wal_bytes.values().sum();
        let windowed = costs.windowed.iter();
        let kafka_s = f64::from(assumptions.topic_days) * DAY_S;
        Self {
            rate_per_s,
            replicas,
            partitions: consumers * u64::from(PARTITIONS_PER_REPLICA),
            brokers: brokers(rate_per_s, costs, assumptions),
            servers: servers.into(),
            is_one_server,
            wal_gb_per_day: gb(wal, DAY_S),
            kept_gb_per_day: gb(costs.kept_bytes, DAY_S),
            windowed_gb: windowed.map(|(bytes, seconds)| gb(*bytes, *seconds)).sum(),
            kafka_gb: gb(costs.kafka_bytes, kafka_s) * f64::from(assumptions.replication),
        }
    }
}

fn replicas(service: Service, rate_per_s: f64, costs: &Costs, assumptions: &Assumptions) -> u64 {
    let cores = rate_per_s * costs.service_us[&service] / 1e6;
    let by_cpu = cores / (assumptions.utilisation * f64::from(assumptions.replica_cores));
    let calls =
        |ms: u32, max: f64| rate_per_s * f64::from(ms) / 1e3 / (assumptions.utilisation * max);
    let by_calls = match service {
        Service::Payment => calls(assumptions.provider_ms, PSP_IN_FLIGHT_MAX),
        Service::Receipt => calls(assumptions.mail_ms, SMTP_CONNECTIONS_MAX),
        _ => 0.0,
    };
    units(by_cpu.max(by_calls), REPLICAS_MIN)
}

fn brokers(rate_per_s: f64, costs: &Costs, assumptions: &Assumptions) -> u64 {
    let copies = f64::from(assumptions.replication);
    let cores = rate_per_s * costs.kafka_us * copies / 1e6;
    let by_cpu = cores / (assumptions.utilisation * f64::from(assumptions.broker_cores));
    // In once and to each copy, out to every service.
    let bytes = rate_per_s * costs.kafka_bytes * (copies + SERVICES.len() as f64);
    let by_network =
        bytes / 1e6 / (assumptions.utilisation * f64::from(assumptions.broker_mb_per_s));
    units(
        by_cpu.max(by_network),
        BROKERS_MIN.max(u64::from(assumptions.replication)),
    )
}

/// How many servers these databases fill, by CPU or by WAL.
pub(super) fn fullness<'a>(
    rate_per_s: f64,
    services: impl Iterator<Item = &'a Service>,
    costs: &Costs,
    assumptions: &Assumptions,
) -> f64 {
    let (mut us, mut wal) = (0.0, 0.0);
    for service in services {
        us += costs.database_us[service];
        wal += costs.wal_bytes[service];
    }
    let by_cpu =
        rate_per_s * us / 1e6 / (assumptions.utilisation * f64::from(assumptions.database_cores));
    let by_wal =
        rate_per_s * wal / 1e6 / (assumptions.utilisation * f64::from(assumptions.wal_mb_per_s));
    by_cpu.max(by_wal)
}

/// Whole units, at least `min`.
fn units(fullness: f64, min: u64) -> u64 {
    (fullness.ceil() as u64).max(min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::sample;
    use crate::capacity::assumptions::tests::defaults;

    fn demand(rate_per_s: f64) -> Demand {
        Demand::of(rate_per_s, &Costs::of(&sample()).unwrap(), &defaults())
    }

    #[test]
    fn databases_get_their_share_without_the_provider() {
        let costs = Costs::of(&sample()).unwrap();
        // Five databases with equal shares of 476 µs and 9,600 bytes, of which the provider's is left out.
        assert_eq!(costs.database_us[&Service::Order], 476.0 / 5.0);
        assert_eq!(costs.wal_bytes[&Service::Receipt], 9_600.0 / 5.0);
        assert_eq!(costs.kept_bytes, 400.0);
        assert_eq!(costs.windowed, [(1_200.0, 604_800.0), (300.0, 2_592_000.0)]);
    }

    #[test]
    fn defaults_are_those_of_the_services() {
        let settings = include_str!("../../../docs/settings.md");
        let has = |name: &str, value: f64| settings.contains(&format!("| `{name}` | `{value}` |"));
        assert!(has("PSP_IN_FLIGHT_MAX", PSP_IN_FLIGHT_MAX));
        assert!(has("SMTP_CONNECTIONS_MAX", SMTP_CONNECTIONS_MAX));
        let [keys, outbox, processed] = WINDOWS.map(|(_, seconds)| seconds);
        assert!(has("KEY_WINDOW_SECONDS", keys));
        assert!(has("OUTBOX_RETENTION_SECONDS", outbox));
        assert!(has("PROCESSED_RETENTION_SECONDS", processed));
    }

    #[test]
    fn small_rate_needs_the_minimum_of_everything() {
        let small = demand(10.0);
        assert!(small.replicas.values().all(|count| *count == 2));
        assert_eq!((small.partitions, small.brokers), (4, 3));
        assert!(small.is_one_server);
    }

    #[test]
    fn large_rate_needs_units_in_proportion() {
        let large = demand(100_000.0);
        // 125 µs × 100,000 = 12.5 cores, of 1 usable core per replica.
        assert_eq!(large.replicas[&Service::Order], 13);
        // 30,000 charges in flight, of 512 usable slots per replica.
        assert_eq!(large.replicas[&Service::Payment], 59);
        // 5,000 mails in flight, of 16 usable connections per replica; two partitions for each replica.
        assert_eq!(large.partitions, 2 * 313);
        assert!(!large.is_one_server);
        // 1,920 bytes × 100,000 = 192 MB/s of WAL, of 100 usable per server.
        assert_eq!(large.servers[&Service::Order], 2);
        // 173 µs × 3 × 100,000 = 51.9 cores, of 4 usable per broker.
        assert_eq!(large.brokers, 13);
        let wal = 1_920.0 * 4.0 * 100_000.0 * DAY_S / 1e9;
        assert!((large.wal_gb_per_day - wal).abs() < 1.0);
    }

    #[test]
    fn report_without_costs_is_an_error() {
        let mut report = sample();
        report.per_order = None;
        Costs::of(&report).unwrap_err();
    }
}
