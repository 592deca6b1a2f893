//! One order's spans as a waterfall. Time in the outbox, in the topic and before a lease is shown as separate
//! waits.

use std::collections::{BTreeMap, HashMap, HashSet};

use timeline::{Span as Bar, SpanKind, Trace};

use super::Span;

/// The relay's attribute: how long the event was in the outbox before it was sent.
const OUTBOX_WAIT_MS: &str = "outbox.wait_ms";
/// Shorter waits are not shown: they are within the error of clocks and rounding.
const WAIT_US_MIN: u64 = 200;

/// Returns `None` without spans.
pub(crate) fn of(spans: &[Span]) -> Option<Trace> {
    let origin = spans.iter().map(|span| span.start_us).min()?;
    let end = spans.iter().map(|span| span.end_us).max()?;
    let by_id: HashMap<&str, &Span> = spans.iter().map(|span| (span.id.as_str(), span)).collect();
    let mut bars = Vec::new();
    for span in spans {
        let parent = span.parent.as_deref().and_then(|id| by_id.get(id).copied());
        bars.extend(wait_before(span, parent, origin));
        bars.extend(outbox_wait(span, origin));
        bars.push(work(span, origin));
    }
    let known: HashSet<String> = bars.iter().map(|bar| bar.id.clone()).collect();
    for bar in &mut bars {
        // The parent may be the client's, or may be lost because its process died.
        bar.parent = bar.parent.take().filter(|id| known.contains(id));
    }
    bars.sort_by(|one, other| {
        (one.start_us, other.duration_us).cmp(&(other.start_us, one.duration_us))
    });
    Some(Trace {
        trace_id: spans.first()?.trace_id.clone(),
        spans: bars,
        total_us: end - origin,
    })
}

fn work(span: &Span, origin: u64) -> Bar {
    let start = span.start_us + outbox_us(span);
    let mut attributes = span.attributes.clone();
    if let Some(error) = &span.error {
        attributes.insert("error".to_owned(), error.clone());
    }
    Bar {
        id: span.id.clone(),
        parent: span.parent.clone(),
        service: span.service.clone(),
        name: name(span),
        start_us: start - origin,
        duration_us: span.end_us.saturating_sub(start),
        kind: SpanKind::Work,
        attributes,
    }
}

/// A message's span is named by its event, since all events share one topic.
fn name(span: &Span) -> String {
    match (span.name.split_once(' '), span.attribute("event.type")) {
        (Some((verb @ ("send" | "process"), _)), Some(event)) => format!("{verb} {event}"),
        _ => span.name.clone(),
    }
}

/// How much of the span was the time in the outbox.
fn outbox_us(span: &Span) -> u64 {
    let wait_ms = span
        .attribute(OUTBOX_WAIT_MS)
        .and_then(|it| it.parse::<u64>().ok());
    let whole = span.end_us.saturating_sub(span.start_us);
    (wait_ms.unwrap_or_default() * 1_000).min(whole)
}

fn outbox_wait(span: &Span, origin: u64) -> Option<Bar> {
    let event = span.attribute("event.type")?;
    let name = format!("{event} in the outbox");
    wait(
        span,
        &format!("{}-outbox", span.id),
        name,
        (span.start_us, outbox_us(span)),
        origin,
    )
}

/// The time between a span and its parent: in the topic before a consumer, in the table before a call.
fn wait_before(span: &Span, parent: Option<&Span>, origin: u64) -> Option<Bar> {
    let parent = parent?;
    let gap = span.start_us.checked_sub(parent.end_us)?;
    let verb = parent.name.split(' ').next().unwrap_or_default();
    let name = match (verb, span.attribute("event.type")) {
        ("send", Some(event)) => format!("{event} in the topic"),
        ("process", None) => format!("waiting for {}", span.name),
        _ => return None,
    };
    wait(
        span,
        &format!("{}-wait", span.id),
        name,
        (parent.end_us, gap),
        origin,
    )
}

fn wait(span: &Span, id: &str, name: String, (start, us): (u64, u64), origin: u64) -> Option<Bar> {
    (us >= WAIT_US_MIN).then(|| Bar {
        id: id.to_owned(),
        parent: span.parent.clone(),
        service: span.service.clone(),
        name,
        start_us: start - origin,
        duration_us: us,
        kind: SpanKind::Wait,
        attributes: BTreeMap::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(
        id: &str,
        parent: &str,
        name: &str,
        (start_us, end_us): (u64, u64),
        event: &str,
    ) -> Span {
        let mut span = Span {
            id: id.to_owned(),
            parent: Some(parent.to_owned()),
            name: name.to_owned(),
            start_us,
            end_us,
            ..Span::default()
        };
        if !event.is_empty() {
            span.attributes
                .insert("event.type".to_owned(), event.to_owned());
        }
        span
    }

    #[test]
    fn waits_in_outbox_topic_and_table_are_separate_bars() {
        let mut send = span(
            "b",
            "a",
            "send order-events",
            (1_100, 8_000),
            "order.placed",
        );
        send.attributes
            .insert(OUTBOX_WAIT_MS.to_owned(), "5".to_owned());
        let waterfall = of(&[
            span("a", "client", "POST /orders", (1_000, 2_000), ""),
            send,
            span(
                "c",
                "b",
                "process order-events",
                (9_000, 9_500),
                "order.placed",
            ),
            span("d", "c", "charge", (19_500, 20_000), ""),
        ]);
        let waterfall = waterfall.unwrap();
        let bars = waterfall
            .spans
            .iter()
            .map(|bar| (bar.name.as_str(), bar.start_us, bar.duration_us));
        assert_eq!(
            bars.collect::<Vec<_>>(),
            [
                ("POST /orders", 0, 1_000),
                ("order.placed in the outbox", 100, 5_000),
                ("send order.placed", 5_100, 1_900),
                ("order.placed in the topic", 7_000, 1_000),
                ("process order.placed", 8_000, 500),
                ("waiting for charge", 8_500, 10_000),
                ("charge", 18_500, 500),
            ]
        );
        assert_eq!(waterfall.total_us, 19_000);
        // The client's own span is not here.
        assert_eq!(waterfall.spans[0].parent, None);
        assert_eq!(waterfall.spans[2].parent.as_deref(), Some("a"));
    }

    #[test]
    fn order_without_spans_has_no_waterfall() {
        assert!(of(&[]).is_none());
    }
}
