//! `GET /api/orders/{id}`: one order's timeline from every service's tables, what only the console observed,
//! and its trace.

use chrono::{DateTime, Utc};
use timeline::{OrderTimeline, Severity, Source, Step};
use uuid::Uuid;

use crate::app::App;
use crate::spans::{KEY, Span, waterfall};
use crate::state::{Mark, MarkKind};

/// Most observed steps in one timeline.
const OBSERVED_MAX: usize = 60;
/// A fault up to this long before the first step or after the last one may have affected the order.
const MARGIN: chrono::Duration = chrono::Duration::seconds(1);
/// Terminal states of an order: later faults are not part of its timeline.
const FINAL: [&str; 5] = ["shipped", "declined", "failed", "cancelled", "refunded"];

/// Returns `None` if no service knows the order.
pub(crate) async fn read(app: &App, id: Uuid) -> Option<OrderTimeline> {
    let mut timeline = timeline::read(&app.operator, &app.endpoints().operator_urls, id).await;
    let spans = app.traces().of_order(&id.to_string());
    let marks: Vec<Mark> = app.hub.memory().marks.iter().cloned().collect();
    if !timeline.is_known() && timeline.missing.is_empty() && spans.is_empty() {
        return None;
    }
    let observed = spans.iter().filter_map(of_span);
    let observed = observed.chain(of_marks(&timeline, id, &marks));
    let observed: Vec<Step> = observed.take(OBSERVED_MAX).collect();
    timeline.observe(observed);
    timeline.trace = waterfall::of(&spans);
    let jaeger_url = app.options.jaeger_url.as_ref();
    timeline.jaeger_url = jaeger_url
        .zip(spans.first())
        .map(|(url, span)| format!("{}/trace/{}", url.trim_end_matches('/'), span.trace_id));
    Some(timeline)
}

/// What a span shows and no table records: repeats that changed nothing, and tries without an outcome.
fn of_span(span: &Span) -> Option<Step> {
    let at = DateTime::from_timestamp_micros(i64::try_from(span.end_us).ok()?)?;
    let step = |what: String| Step::observed(at, &span.service, what);
    let status = span.attribute("http.response.status_code");
    let is_replay = span.attribute("idempotency.replayed") == Some("true");
    let event = span.attribute("event.type").unwrap_or("message");
    if span.name == "duplicate dropped" {
        let what = format!("dropped a repeated {event}");
        return Some(step(what).severity(Severity::Duplicate));
    }
    if is_replay {
        let what = match span.service.as_str() {
            "psp" => "recognised the key and repeated its response: nothing was charged again",
            _ => "recognised the key and repeated its response",
        };
        let step = step(what.to_owned()).severity(Severity::Duplicate);
        return Some(step.fact_if("key", span.attribute(KEY)));
    }
    match (span.service.as_str(), status) {
        ("order", Some("409")) => {
            let what = "responded with 409 to a repeat: the first request still held the key";
            Some(step(what.to_owned()).severity(Severity::Duplicate))
        }
        ("order", Some("422")) => {
            let what = "rejected another body under the same key";
            Some(step(what.to_owned()).severity(Severity::Duplicate))
        }
        ("payment", _) => {
            let (number, error) = (span.attribute("payment.try")?, span.error.as_deref()?);
            let step = step(format!("try {number} has no outcome")).severity(Severity::Fault);
            Some(step.fact("reason", error))
        }
        _ => None,
    }
}

/// Processes that died, paused or returned while the order was in progress.
fn of_marks(timeline: &OrderTimeline, id: Uuid, marks: &[Mark]) -> Vec<Step> {
    let times = || {
        let table = timeline
            .steps
            .iter()
            .filter(|step| step.source == Source::Table);
        table.map(|step| step.at)
    };
    let Some(first) = times().min() else {
        return Vec::new();
    };
    let is_final = timeline
        .status
        .as_deref()
        .is_some_and(|status| FINAL.contains(&status));
    let last = times().max().filter(|_| is_final).unwrap_or_else(Utc::now);
    let window = first - MARGIN..=last + MARGIN;
    let concerns = |mark: &&Mark| mark.order_id == Some(id) || window.contains(&mark.t);
    let steps = marks.iter().filter(concerns).filter_map(|mark| {
        let severity = match mark.kind {
            MarkKind::Return | MarkKind::Resume | MarkKind::Heal => Severity::Normal,
            MarkKind::Arm | MarkKind::Reset => return None,
            _ => Severity::Fault,
        };
        let process = mark.process.as_deref()?;
        Some(Step::observed(mark.t, process, &mark.label).severity(severity))
    });
    steps.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn span(service: &str, name: &str, attributes: &[(&str, &str)]) -> Span {
        let attributes = attributes.iter();
        Span {
            service: service.to_owned(),
            name: name.to_owned(),
            attributes: attributes
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect::<BTreeMap<_, _>>(),
            ..Span::default()
        }
    }

    #[test]
    fn repeats_are_observed_and_first_requests_are_not() {
        let seen = |span: Span| of_span(&span).map(|step| step.severity);
        let replayed = ("idempotency.replayed", "true");
        let status = |code| ("http.response.status_code", code);
        let post = |attributes: &[_]| seen(span("order", "POST /orders", attributes));
        assert_eq!(post(&[status("201")]), None);
        assert_eq!(post(&[status("201"), replayed]), Some(Severity::Duplicate));
        assert_eq!(post(&[status("409")]), Some(Severity::Duplicate));
        let dropped = span(
            "payment",
            "duplicate dropped",
            &[("event.type", "order.placed")],
        );
        assert_eq!(seen(dropped), Some(Severity::Duplicate));
        let mut lost = span("payment", "charge", &[("payment.try", "1")]);
        assert_eq!(seen(lost.clone()), None);
        lost.error = Some("timeout".to_owned());
        assert_eq!(seen(lost), Some(Severity::Fault));
    }
}
