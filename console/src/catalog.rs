//! `GET /api/catalog`: what can be ordered and what can be broken, each with a sentence.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use crash_windows::windows;
use serde::Serialize;
use serde_json::{Value, json};
use testkit::system::PAYMENT_PSP;

use crate::actions::provider_faults::FAULTS;
use crate::app::App;

/// Test payment methods of the mock provider.
const PAYMENT_METHODS: [(&str, &str); 10] = [
    ("pm_card_ok", "Card that works"),
    ("pm_card_declined", "Declined card"),
    ("pm_card_insufficient_funds", "Card without funds"),
    ("pm_card_expired", "Expired card"),
    ("pm_card_slow", "Card that is charged slowly"),
    ("pm_card_processing", "Card that is captured later"),
    ("pm_card_processing_fails", "Card that fails later"),
    ("pm_card_refund_slow", "Card with a slow refund"),
    ("pm_card_refund_fails", "Card whose refund fails"),
    ("pm_card_unknown", "Card that the provider does not know"),
];
/// Items to order. The last one is out of stock, so its order is refunded.
const SKUS: [&str; 4] = ["SKU-99", "SKU-1", "SKU-2", "SKU-sold-out"];

/// When each crash point kills its service, as the page says it: "payment dies …". The first one is the
/// one to try first; the others follow the path of an order.
const SENTENCES: [(&str, &str, &str); 26] = [
    (
        "payment",
        "charge.answered",
        "after the provider charged the card, before payment recorded the charge",
    ),
    (
        "payment",
        "charge.in_flight",
        "while the provider processes the charge",
    ),
    (
        "payment",
        "charge.leased",
        "after it leased the attempt, before it called the provider",
    ),
    (
        "payment",
        "charge.recorded",
        "after it recorded the charge, before it published the event",
    ),
    (
        "order",
        "intake.committed",
        "after it stored the order, before it responded to the client",
    ),
    (
        "order",
        "intake.received",
        "after it received the order, before it stored the order",
    ),
    (
        "order",
        "relay.claimed",
        "after it read an event from the outbox, before it sent the event",
    ),
    (
        "order",
        "relay.produced",
        "after it sent an event, before Kafka acknowledged the event",
    ),
    (
        "order",
        "relay.acknowledged",
        "after Kafka acknowledged the event, before the event was marked as published",
    ),
    (
        "payment",
        "relay.acknowledged",
        "after Kafka acknowledged the event, before the event was marked as published",
    ),
    (
        "fulfilment",
        "relay.acknowledged",
        "after Kafka acknowledged the event, before the event was marked as published",
    ),
    (
        "payment",
        "inbox.handled",
        "while it processes a message, before the commit",
    ),
    (
        "payment",
        "inbox.committed",
        "after it processed a message, before it stored the offset",
    ),
    (
        "fulfilment",
        "inbox.handled",
        "while it ships the order, before the commit",
    ),
    (
        "fulfilment",
        "inbox.committed",
        "after it shipped the order, before it stored the offset",
    ),
    (
        "order",
        "inbox.handled",
        "while it applies an event, before the commit",
    ),
    (
        "order",
        "inbox.committed",
        "after it applied an event, before it stored the offset",
    ),
    (
        "payment",
        "refund.leased",
        "after it leased a refund, before it called the provider",
    ),
    (
        "payment",
        "refund.in_flight",
        "while the provider processes a refund",
    ),
    (
        "payment",
        "refund.answered",
        "after the provider refunded the charge, before payment recorded the refund",
    ),
    (
        "payment",
        "refund.recorded",
        "after it recorded a refund, before it published the event",
    ),
    (
        "receipt",
        "inbox.handled",
        "while it logs a mail, before the commit",
    ),
    (
        "receipt",
        "inbox.committed",
        "after it logged a mail, before it stored the offset",
    ),
    (
        "receipt",
        "receipt.leased",
        "after it leased a mail, before it sent the mail",
    ),
    (
        "receipt",
        "receipt.sent",
        "after it sent the mail, before it recorded the result",
    ),
    (
        "receipt",
        "receipt.recorded",
        "after it recorded the result",
    ),
];

/// A crash point that an order can reach.
#[derive(Serialize)]
pub(crate) struct CrashPoint {
    pub(crate) service: &'static str,
    pub(crate) point: &'static str,
    window: u8,
    pub(crate) sentence: &'static str,
}

/// The crash points, each with the first window that it belongs to.
pub(crate) fn crash_points() -> Vec<CrashPoint> {
    let window = |service: &str, point: &str| {
        let has_it = |it: &&crash_windows::Window| it.points().contains(&(service, point));
        windows().find(has_it).map(|window| window.number)
    };
    let all = SENTENCES
        .into_iter()
        .filter_map(|(service, point, sentence)| {
            Some(CrashPoint {
                service,
                point,
                window: window(service, point)?,
                sentence,
            })
        });
    all.collect()
}

pub(crate) async fn read(State(app): State<Arc<App>>) -> Json<Value> {
    let methods = PAYMENT_METHODS.map(|(id, label)| json!({ "id": id, "label": label }));
    let faults = FAULTS
        .iter()
        .map(|fault| json!({ "id": fault.id, "label": fault.label, "sentence": fault.sentence }));
    let instead = app.options.controls.cut_instead();
    let network = json!({
        "id": PAYMENT_PSP, "label": "Between payment and the provider", "on": app.hub.memory().is_cut,
        "possible": instead.is_none(), "instead": instead,
    });
    Json(json!({
        "payment_methods": methods, "skus": SKUS, "crash_points": crash_points(),
        "provider_faults": faults.collect::<Vec<_>>(), "network": [network],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sentence_belongs_to_a_crash_window() {
        assert_eq!(crash_points().len(), SENTENCES.len());
    }
}
