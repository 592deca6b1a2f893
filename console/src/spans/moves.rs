//! Turns spans into moves between the boxes of the diagram, at a rate that a person can follow.

use std::time::Duration;

use chrono::DateTime;
use tokio::time::Instant;

use super::{ORDER_ID, Span};
use crate::state::Move;

/// Moves per second at most; others are only counted.
const MOVES_PER_S_MAX: u32 = 20;
/// Of these, moves of orders that the page does not follow.
const OTHERS_PER_S_MAX: u32 = 14;

/// Limits the rate of moves.
#[derive(Default)]
pub(crate) struct Moves {
    second: Option<Instant>,
    sent: u32,
}

impl Moves {
    /// The move that a span stands for, unless this second already has enough.
    pub(crate) fn next(&mut self, span: &Span, followed: &[String]) -> Option<Move> {
        let it = of(span)?;
        let now = Instant::now();
        if self
            .second
            .is_none_or(|at| now - at >= Duration::from_secs(1))
        {
            self.second = Some(now);
            self.sent = 0;
        }
        let max = match followed.contains(&it.order_id) {
            true => MOVES_PER_S_MAX,
            false => OTHERS_PER_S_MAX,
        };
        if self.sent >= max {
            return None;
        }
        self.sent += 1;
        Some(it)
    }
}

fn of(span: &Span) -> Option<Move> {
    let service = node(&span.service)?;
    let event_type = span.attribute("event.type").unwrap_or(&span.name);
    let verb = span.name.split(' ').next()?;
    let (from, to) = match verb {
        "send" => (service, "topic"),
        "process" => ("topic", service),
        "SMTP" => (service, "client"),
        "POST" | "PUT" if service == "order" => ("client", "order"),
        _ if span.attribute("payment.try").is_some() => ("payment", "psp"),
        _ => return None,
    };
    Some(Move {
        order_id: span.attribute(ORDER_ID)?.to_owned(),
        from,
        to,
        event_type: event_type.to_owned(),
        at: DateTime::from_timestamp_micros(i64::try_from(span.end_us).ok()?)?,
    })
}

fn node(service: &str) -> Option<&'static str> {
    let nodes = ["order", "payment", "psp", "fulfilment", "receipt"];
    nodes.into_iter().find(|it| *it == service)
}
