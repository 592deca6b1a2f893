//! Merges the parts of all services into one timeline. Pure.

use endpoints::Service;
use steps::{Part, Severity, Step};
use uuid::Uuid;

use crate::order_timeline::{Missing, OrderTimeline};
use crate::summary::{Facts, summary};

/// The order of steps with equal times: a cause before its effect.
const CAUSAL_ORDER: [Service; 5] = [
    Service::Order,
    Service::Payment,
    Service::Psp,
    Service::Fulfilment,
    Service::Receipt,
];

/// Merges the responses of the services. An `Err` says why a service did not respond.
pub fn merge(order_id: Uuid, responses: Vec<(Service, Result<Part, String>)>) -> OrderTimeline {
    let mut parts: Vec<(Service, Part)> = Vec::new();
    let mut missing = Vec::new();
    for (service, response) in responses {
        match response {
            Ok(part) => parts.push((service, part)),
            Err(reason) => missing.push(Missing {
                service: service.name().to_owned(),
                reason,
            }),
        }
    }
    let rank = |service: Service| CAUSAL_ORDER.iter().position(|it| *it == service);
    parts.sort_by_key(|(service, _)| rank(*service));
    let of = |service| {
        let found = parts.iter().find(|(part, _)| *part == service);
        found.map(|(_, part)| part)
    };
    let (order, payment, psp) = (of(Service::Order), of(Service::Payment), of(Service::Psp));
    // A direct charge has no order: its status is that of its attempt.
    let status_of = |part: Option<&Part>| part.and_then(|part| part.status.clone());
    let status = status_of(order).or_else(|| status_of(payment));
    let charges = psp.and_then(|part| part.charges);
    let refunds = psp.and_then(|part| part.refunds);
    let first = |field: fn(&Part) -> Option<String>| {
        let parts = [order, payment].into_iter().flatten();
        parts.filter_map(field).next()
    };
    let facts = Facts {
        charges,
        refunds,
        status: status.as_deref(),
        placed_at: order.and_then(|part| part.placed_at),
        status_at: order.and_then(|part| part.status_at),
    };
    OrderTimeline {
        order_id,
        summary: summary(&facts),
        key: first(|part| part.key.clone()),
        fingerprint: first(|part| part.fingerprint.clone()),
        reference: first(|part| part.reference.clone()),
        charges_in_books: charges,
        refunds_in_books: refunds,
        notes: notes(&parts),
        steps: sorted_steps(&parts),
        missing,
        trace: None,
        jaeger_url: None,
        status,
    }
}

fn notes(parts: &[(Service, Part)]) -> Vec<String> {
    let notes = parts.iter().flat_map(|(service, part)| {
        let notes = part.notes.iter();
        notes.map(move |note| format!("{service}: {note}"))
    });
    notes.collect()
}

/// All steps, sorted by time. The parts are in [`CAUSAL_ORDER`], and the stable sort keeps it for equal times.
fn sorted_steps(parts: &[(Service, Part)]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (service, part) in parts {
        for step in &part.steps {
            let mut step = step.clone();
            // The service that responded counts, not the name in its response.
            step.service = service.name().to_owned();
            steps.push(step);
        }
    }
    steps.sort_by_key(|step| step.at);
    mark_further_charges(&mut steps);
    steps
}

/// An order may have one captured charge. Every further one is a fault.
fn mark_further_charges(steps: &mut [Step]) {
    let charges = steps.iter_mut().filter(|step| {
        let is_charge = step.table.as_deref() == Some("charges");
        step.service == Service::Psp.name() && is_charge && step.severity == Severity::Money
    });
    for step in charges.skip(1) {
        step.severity = Severity::Fault;
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    const ORDER: Uuid = Uuid::from_u128(7);

    fn step(ms: i64, table: &str, what: &str) -> Step {
        Step::new(DateTime::from_timestamp_millis(ms).unwrap(), table, what)
    }

    fn part(service: Service, steps: Vec<Step>) -> (Service, Result<Part, String>) {
        let mut part = Part::new(service.name(), ORDER);
        part.steps = steps;
        (service, Ok(part.finish()))
    }

    fn whats(timeline: &OrderTimeline) -> Vec<&str> {
        timeline
            .steps
            .iter()
            .map(|step| step.what.as_str())
            .collect()
    }

    #[test]
    fn steps_of_all_services_are_sorted_by_time() {
        let timeline = merge(
            ORDER,
            vec![
                part(Service::Psp, vec![step(3, "charges", "charged")]),
                part(
                    Service::Payment,
                    vec![
                        step(2, "payments", "stored"),
                        step(4, "payments", "captured"),
                    ],
                ),
                part(Service::Order, vec![step(1, "orders", "placed")]),
            ],
        );
        assert_eq!(
            whats(&timeline),
            ["placed", "stored", "charged", "captured"]
        );
        assert_eq!(timeline.steps[2].service, "psp");
    }

    #[test]
    fn equal_times_are_sorted_from_cause_to_effect() {
        let one = |service| part(service, vec![step(1, "table", "step")]);
        let responses = Service::ALL.into_iter().map(one).collect();
        let timeline = merge(ORDER, responses);
        let services: Vec<&str> = timeline
            .steps
            .iter()
            .map(|it| it.service.as_str())
            .collect();
        assert_eq!(
            services,
            ["order", "payment", "psp", "fulfilment", "receipt"]
        );
    }

    #[test]
    fn service_that_is_down_is_a_missing_part() {
        let timeline = merge(
            ORDER,
            vec![
                part(Service::Order, vec![step(1, "orders", "placed")]),
                (Service::Psp, Err("connection closed".to_owned())),
            ],
        );
        assert_eq!(whats(&timeline), ["placed"]);
        assert_eq!(
            (&*timeline.missing[0].service, &*timeline.missing[0].reason),
            ("psp", "connection closed")
        );
        assert_eq!(timeline.charges_in_books, None);
        assert!(
            timeline.summary.starts_with("charges not known"),
            "{}",
            timeline.summary
        );
    }

    #[test]
    fn second_charge_is_a_fault() {
        let charge = |ms| step(ms, "charges", "charge captured").severity(Severity::Money);
        let refund = step(3, "refunds", "refunded").severity(Severity::Money);
        let timeline = merge(
            ORDER,
            vec![part(Service::Psp, vec![charge(1), charge(2), refund])],
        );
        let severities: Vec<Severity> = timeline.steps.iter().map(|it| it.severity).collect();
        assert_eq!(
            severities,
            [Severity::Money, Severity::Fault, Severity::Money]
        );
    }

    #[test]
    fn order_facts_come_from_the_service_that_knows_them() {
        let mut order = Part::new("order", ORDER);
        order.status = Some("placed".to_owned());
        order.key = Some("k-1".to_owned());
        let mut payment = Part::new("payment", ORDER);
        payment.status = Some("unknown".to_owned());
        let mut psp = Part::new("psp", ORDER);
        (psp.charges, psp.refunds) = (Some(1), Some(0));
        psp.notes = vec!["charges: only 100 rows are shown".to_owned()];
        let responses = vec![
            (Service::Order, Ok(order)),
            (Service::Payment, Ok(payment.clone())),
            (Service::Psp, Ok(psp)),
        ];
        let timeline = merge(ORDER, responses);
        assert_eq!(timeline.status.as_deref(), Some("placed"));
        assert_eq!(
            (timeline.key.as_deref(), timeline.charges_in_books),
            (Some("k-1"), Some(1))
        );
        assert_eq!(timeline.notes, ["psp: charges: only 100 rows are shown"]);
        let direct = merge(ORDER, vec![(Service::Payment, Ok(payment))]);
        assert_eq!(direct.status.as_deref(), Some("unknown"));
    }
}
