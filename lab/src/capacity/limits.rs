//! Where one unit of each part is full, and what changes in the design there.

use endpoints::Service;

use super::assumptions::Assumptions;
use super::demand::{
    Costs, PARTITIONS_PER_REPLICA, PSP_IN_FLIGHT_MAX, SERVICES, SMTP_CONNECTIONS_MAX, fullness,
};

/// A cluster with more partitions takes long to elect leaders.
const PARTITIONS_MAX: f64 = 4_000.0;

/// One limit of the present design.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Limit {
    pub(super) rate_per_s: f64,
    pub(super) what: String,
    pub(super) then: &'static str,
}

/// All limits, the lowest first.
pub(super) fn limits(costs: &Costs, assumptions: &Assumptions) -> Vec<Limit> {
    let mut limits = vec![
        one_server(costs, assumptions),
        largest_database(costs, assumptions),
    ];
    limits.extend(relays(costs, assumptions));
    limits.push(topic(costs, assumptions));
    limits.retain(|limit| limit.rate_per_s.is_finite());
    limits.sort_by(|a, b| a.rate_per_s.total_cmp(&b.rate_per_s));
    limits
}

fn one_server(costs: &Costs, assumptions: &Assumptions) -> Limit {
    Limit {
        rate_per_s: 1.0 / fullness(1.0, SERVICES.iter(), costs, assumptions),
        what: "one Postgres server for all databases is full".to_owned(),
        then: "Give each service its own server. Nothing changes in the code: each service knows only its DATABASE_URL.",
    }
}

fn largest_database(costs: &Costs, assumptions: &Assumptions) -> Limit {
    let fullest = |service: &Service| fullness(1.0, [service].into_iter(), costs, assumptions);
    let largest = SERVICES
        .into_iter()
        .max_by(|a, b| fullest(a).total_cmp(&fullest(b)));
    let largest = largest.unwrap_or(Service::Order);
    Limit {
        rate_per_s: 1.0 / fullest(&largest),
        what: format!("one server for the database of {largest}, the largest, is full"),
        then: "Shard by order id. Every table of the flow has it, and every event is keyed by it, so an order never \
               crosses shards. One database per shard, with replicas that serve one shard each: migrations and \
               services stay as they are, a router in front picks the shard, and each shard consumes its own Kafka \
               partitions. Or Citus, distributed by order id: one DATABASE_URL, but keys and references, which are \
               unique per principal, need a table of their own that maps them to the order id first. In both cases \
               derive the order id from principal and key, so that a repeated request finds its shard.",
    }
}

/// Polling costs an update, an index entry and a read per event.
fn relays(costs: &Costs, assumptions: &Assumptions) -> Option<Limit> {
    // Each outbox has one event per order (placed, captured, shipped), and each shard at most one relay.
    let per_s = costs.relay_per_s? * assumptions.utilisation * f64::from(outbox::SHARDS);
    Some(Limit {
        rate_per_s: per_s,
        what: "all relays of one outbox, one per shard, are busy".to_owned(),
        then: "Change data capture instead of polling: a logical replication slot reads the outbox from the WAL. The mark \
               of each event, its index entry and the relay's reads go away; events are no longer updated, only \
               inserted. The price is a slot that holds back WAL while its reader is down. With shards by order id the \
               limit applies per shard, so this is a matter of cost before it is one of rate.",
    })
}

fn topic(costs: &Costs, assumptions: &Assumptions) -> Limit {
    let per_replica = |service: Service| {
        let us = costs.service_us[&service].max(f64::EPSILON);
        assumptions.utilisation * f64::from(assumptions.replica_cores) * 1e6 / us
    };
    let slots = |max: f64, ms: u32| assumptions.utilisation * max * 1e3 / f64::from(ms);
    let slowest = SERVICES
        .map(per_replica)
        .into_iter()
        .chain([
            slots(PSP_IN_FLIGHT_MAX, assumptions.provider_ms),
            slots(SMTP_CONNECTIONS_MAX, assumptions.mail_ms),
        ])
        .fold(f64::INFINITY, f64::min);
    Limit {
        rate_per_s: slowest * PARTITIONS_MAX / f64::from(PARTITIONS_PER_REPLICA),
        what: format!("one topic has {PARTITIONS_MAX} partitions, two per replica"),
        then: "One topic per shard, on a cluster of its own. Before that, raise PSP_IN_FLIGHT_MAX and \
               SMTP_CONNECTIONS_MAX: payment and receipt mostly wait, so fewer replicas do the same work.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::sample;
    use crate::capacity::assumptions::tests::defaults;

    #[test]
    fn one_unit_is_full_at_its_limit() {
        let costs = Costs::of(&sample()).unwrap();
        let limits = limits(&costs, &defaults());
        let rates: Vec<f64> = limits.iter().map(|limit| limit.rate_per_s).collect();
        assert!(rates.is_sorted(), "{rates:?}");
        let of_server = |part: &str| {
            let limit = limits.iter().find(|limit| limit.what.contains(part));
            limit.unwrap().rate_per_s
        };
        // 7,680 bytes of WAL per order for all databases, 1,920 for one; 100 MB/s are usable.
        assert!((of_server("for all databases") - 13_020.8).abs() < 1.0);
        assert!((of_server("the largest") - 52_083.3).abs() < 1.0);
    }

    #[test]
    fn missing_relay_figure_leaves_its_limit_out() {
        let mut costs = Costs::of(&sample()).unwrap();
        let without = limits(&costs, &defaults()).len();
        costs.relay_per_s = Some(10_000.0);
        assert_eq!(limits(&costs, &defaults()).len(), without + 1);
    }
}
