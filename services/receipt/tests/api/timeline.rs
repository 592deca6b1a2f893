//! The receipt service's part of an order's timeline: its mails and their tries.

use operators::{PartQuery, read_part};
use receipt::timeline::Reader;
use steps::{Part, Severity};
use testkit::smtp_sink::Action;
use uuid::Uuid;

use crate::harness::Harness;

async fn part(harness: &Harness, order_id: Uuid) -> Part {
    let reader = Reader {
        group: "receipt".to_owned(),
    };
    let query = PartQuery {
        order_id,
        keys: Vec::new(),
    };
    read_part(&harness.pool, &reader, &query).await.unwrap()
}

fn whats(part: &Part) -> Vec<&str> {
    part.steps.iter().map(|step| step.what.as_str()).collect()
}

#[tokio::test]
async fn sent_mail_shows_its_commit() {
    let harness = Harness::create().await;
    let order = harness.log_new().await;
    let logged = part(&harness, order).await;
    assert_eq!(whats(&logged), ["mail (receipt) logged"]);
    let stored = logged.steps[0].commit.clone();
    assert!(stored.is_some());
    assert_eq!(harness.try_once().await, 1);
    let sent = part(&harness, order).await;
    assert_eq!(
        whats(&sent),
        ["mail (receipt) logged", "mail (receipt) is sent"]
    );
    let commits: Vec<_> = sent.steps.iter().map(|it| it.commit.clone()).collect();
    assert_eq!(commits[0], None, "the row was changed since");
    assert!(commits[1].is_some() && commits[1] != stored);
}

#[tokio::test]
async fn mail_in_doubt_is_a_fault() {
    let harness = Harness::create().await;
    harness.misbehave(Action::Hang, 1);
    let order = harness.log_new().await;
    harness.try_once().await;
    let part = part(&harness, order).await;
    let last = part.steps.last().unwrap();
    assert_eq!(last.severity, Severity::Fault, "{part:#?}");
    assert_eq!(last.facts["tries in doubt"], "1");
    assert!(last.facts.contains_key("error"));
}
