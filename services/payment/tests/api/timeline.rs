//! The payment service's part of an order's timeline: attempts, tries with the provider's key, refunds.

use operators::{PartQuery, read_part};
use payment::timeline::Reader;
use steps::{Part, Severity, Step};
use uuid::Uuid;
use wiremock::ResponseTemplate;

use crate::harness::Harness;
use crate::provider::{mount_captures, mount_first_charge_responses, mount_refunds};
use crate::rejections::reject;

async fn part(harness: &Harness, order_id: Uuid) -> Part {
    let reader = Reader {
        group: "payment".to_owned(),
    };
    let query = PartQuery {
        order_id,
        keys: Vec::new(),
    };
    read_part(&harness.pool, &reader, &query).await.unwrap()
}

fn step<'a>(part: &'a Part, what: &str) -> &'a Step {
    let found = part.steps.iter().find(|step| step.what == what);
    found.unwrap_or_else(|| panic!("no {what}: {part:#?}"))
}

#[tokio::test]
async fn attempt_with_a_lost_answer_shows_both_tries_and_its_key() {
    let harness = Harness::create().await;
    mount_first_charge_responses(&harness.psp, 1, ResponseTemplate::new(500)).await;
    mount_captures(&harness.psp).await;
    let order = harness.open_new().await;
    let before = part(&harness, order).await;
    let stored = step(&before, "attempt 1 stored");
    assert!(stored.commit.is_some(), "no other change yet: {stored:?}");
    assert_eq!(before.steps.len(), 1, "{before:#?}");

    harness.step().await;
    let unknown = part(&harness, order).await;
    let result = step(&unknown, "attempt 1 is unknown");
    assert_eq!(result.severity, Severity::Fault);
    assert_eq!(result.facts["error"], "status 500");
    assert_eq!(step(&unknown, "attempt 1 stored").commit, None);
    let key = format!("pay:{order}:1");
    assert_eq!(
        step(&unknown, "attempt 1: key sent").facts["provider key"],
        key
    );

    harness.step().await;
    let part = part(&harness, order).await;
    assert_eq!(part.provider_keys, [key]);
    assert_eq!(part.status.as_deref(), Some("captured"));
    assert_eq!(step(&part, "attempt 1: key sent again").facts["tries"], "2");
    let captured = step(&part, "attempt 1 is captured");
    assert_eq!(captured.severity, Severity::Money);
    assert_eq!(captured.facts["charge"], format!("ch_{order}"));
    let event = step(&part, "event payment.captured stored");
    assert!(event.event.is_some() && captured.commit.is_some());
}

#[tokio::test]
async fn refund_shows_its_reason_key_and_result() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    mount_refunds(&harness.psp).await;
    let order = harness.open_new().await;
    harness.step().await;
    reject(&harness, order, 1).await;
    harness.step().await;
    let part = part(&harness, order).await;
    let stored = step(&part, "refund of attempt 1 stored");
    assert_eq!(stored.facts["reason"], "cancelled");
    assert_eq!(stored.facts["provider key"], format!("refund:{order}:1"));
    let result = step(&part, "refund of attempt 1 is refunded");
    assert_eq!(result.severity, Severity::Money);
    assert!(result.commit.is_some());
    assert!(part.provider_keys.contains(&format!("refund:{order}:1")));
}
