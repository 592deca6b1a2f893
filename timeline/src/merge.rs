//! Merges the parts of all services into one story. Pure.

use endpoints::Service;
use steps::{Part, Severity, Step};
use uuid::Uuid;

use crate::story::{Missing, Story};
use crate::summary::{Facts, summary};

/// The order of steps with equal times: a cause before its effect.
const TOLD: [Service; 5] = [
    Service::Order,
    Service::Payment,
    Service::Psp,
    Service::Fulfilment,
    Service::Receipt,
];

/// Merges the answers of the services. An `Err` is a service that did not answer, and why.
pub fn merge(order_id: Uuid, answers: Vec<(Service, Result<Part, String>)>) -> Story {
    let mut parts: Vec<(Service, Part)> = Vec::new();
    let mut missing = Vec::new();
    for (service, answer) in answers {
        match answer {
            Ok(part) => parts.push((service, part)),
            Err(reason) => missing.push(Missing {
                service: service.name().to_owned(),
                reason,
            }),
        }
    }
    let rank = |service: Service| TOLD.iter().position(|told| *told == service);
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
    Story {
        order_id,
        summary: summary(&facts),
        key: first(|part| part.key.clone()),
        fingerprint: first(|part| part.fingerprint.clone()),
        reference: first(|part| part.reference.clone()),
        charges_in_books: charges,
        refunds_in_books: refunds,
        notes: notes(&parts),
        steps: told(&parts),
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

/// All steps by time. The parts are in the order of [`TOLD`], and the sort keeps it for equal times.
fn told(parts: &[(Service, Part)]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (service, part) in parts {
        for step in &part.steps {
            let mut step = step.clone();
            // The answer came from this service, whatever it says of itself.
            step.service = service.name().to_owned();
            steps.push(step);
        }
    }
    steps.sort_by_key(|step| step.at);
    mark_further_charges(&mut steps);
    steps
}

/// Only the first captured charge of an order is as it should be.
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

    fn whats(story: &Story) -> Vec<&str> {
        story.steps.iter().map(|step| step.what.as_str()).collect()
    }

    #[test]
    fn steps_of_all_services_are_sorted_by_time() {
        let story = merge(
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
        assert_eq!(whats(&story), ["placed", "stored", "charged", "captured"]);
        assert_eq!(story.steps[2].service, "psp");
    }

    #[test]
    fn equal_times_are_told_from_cause_to_effect() {
        let one = |service| part(service, vec![step(1, "t", "x")]);
        let answers = Service::ALL.into_iter().map(one).collect();
        let story = merge(ORDER, answers);
        let services: Vec<&str> = story.steps.iter().map(|it| it.service.as_str()).collect();
        assert_eq!(
            services,
            ["order", "payment", "psp", "fulfilment", "receipt"]
        );
    }

    #[test]
    fn service_that_is_down_is_a_missing_part() {
        let story = merge(
            ORDER,
            vec![
                part(Service::Order, vec![step(1, "orders", "placed")]),
                (Service::Psp, Err("connection closed".to_owned())),
            ],
        );
        assert_eq!(whats(&story), ["placed"]);
        assert_eq!(
            (&*story.missing[0].service, &*story.missing[0].reason),
            ("psp", "connection closed")
        );
        assert_eq!(story.charges_in_books, None);
        assert!(
            story.summary.starts_with("charges not known"),
            "{}",
            story.summary
        );
    }

    #[test]
    fn second_charge_is_a_fault() {
        let charge = |ms| step(ms, "charges", "charge captured").severity(Severity::Money);
        let refund = step(3, "refunds", "refunded").severity(Severity::Money);
        let story = merge(
            ORDER,
            vec![part(Service::Psp, vec![charge(1), charge(2), refund])],
        );
        let severities: Vec<Severity> = story.steps.iter().map(|it| it.severity).collect();
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
        let answers = vec![
            (Service::Order, Ok(order)),
            (Service::Payment, Ok(payment.clone())),
            (Service::Psp, Ok(psp)),
        ];
        let story = merge(ORDER, answers);
        assert_eq!(story.status.as_deref(), Some("placed"));
        assert_eq!(
            (story.key.as_deref(), story.charges_in_books),
            (Some("k-1"), Some(1))
        );
        assert_eq!(story.notes, ["psp: charges: only 100 rows are shown"]);
        let direct = merge(ORDER, vec![(Service::Payment, Ok(payment))]);
        assert_eq!(direct.status.as_deref(), Some("unknown"));
    }
}
