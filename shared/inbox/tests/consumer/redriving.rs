//! An operator redrives or discards parked messages.

use futures_util::future::join_all;
use reqwest::Method;
use testkit::operator;
use uuid::Uuid;

use crate::effects::Effects;
use crate::harness::{Harness, drain_parking, event, eventually};
use crate::operator::Operator;

/// Consumes four messages of one order. The handler rejects the second.
async fn one_parked(harness: &Harness, effects: &Effects) -> (Uuid, Operator) {
    let order = Uuid::new_v4();
    for number in 1..=4 {
        harness.topic.publish_to(0, &event(order, number)).await;
    }
    effects.poison(order, 2);
    let mut consumer = harness.consumer(harness.settings(), effects.clone());
    assert_eq!(drain_parking(&mut consumer, 4).await, [1, 0, 3, 0]);
    (order, Operator::of(&consumer, &harness.pool).await)
}

/// The audit row of an operator's change to a parked message.
fn audit_row(action: &str, id: i64) -> [String; 4] {
    [operator::NAME, action, &id.to_string(), operator::REASON].map(str::to_owned)
}

#[tokio::test]
async fn redrive_handles_the_queue_in_order_and_repeats_safely() {
    let harness = Harness::create().await;
    let effects = Effects::default();
    let (order, operator) = one_parked(&harness, &effects).await;
    let id = operator.first_id().await;
    effects.heal();
    assert_eq!(operator.redrive(id).await, [3, 0, 0]);
    assert_eq!(harness.effects(order).await, [1, 2, 3, 4]);
    assert_eq!(harness.parked_count().await, 0);
    assert_eq!(harness.processed_count().await, 4);
    for _ in 0..2 {
        assert_eq!(operator.redrive(id).await, [0, 0, 0]);
        assert_eq!(operator.discard(id).await, (false, [0, 0, 0]));
    }
    assert_eq!(harness.effects(order).await, [1, 2, 3, 4]);
    let (status, problem) = operator.request(Method::GET, &format!("/{id}")).await;
    assert_eq!(
        (status.as_u16(), &problem["code"]),
        (404, &"no_such_parked_message".into())
    );

    // The order is no longer blocked.
    let mut consumer = harness.consumer(harness.settings(), effects);
    harness.topic.publish_to(0, &event(order, 5)).await;
    let [fresh, _, parked, _] = drain_parking(&mut consumer, 1).await;
    assert_eq!((fresh, parked), (1, 0));
}

#[tokio::test]
async fn redrive_stops_at_the_first_failure() {
    let harness = Harness::create().await;
    let effects = Effects::default();
    let (order, operator) = one_parked(&harness, &effects).await;
    effects.heal();
    effects.poison(order, 3);
    // A redrive starts with the first message of the order, no matter which message it names.
    let last = operator.list().await.pop().unwrap()["id"].as_i64().unwrap();
    assert_eq!(operator.redrive(last).await, [1, 0, 2]);
    assert_eq!(harness.effects(order).await, [1, 2]);
    assert_eq!(harness.queue(order).await, [(3, true), (4, false)]);
    let failed = &operator.list().await[0];
    assert_eq!(
        (&failed["tries"], &failed["cause"]),
        (&1.into(), &"poison\u{fffd} in number 3".into())
    );

    // It fails again while the handler rejects it.
    assert_eq!(operator.redrive(last).await, [0, 0, 2]);
    assert_eq!(operator.list().await[0]["tries"], 2);
    effects.heal();
    assert_eq!(operator.redrive(last).await, [2, 0, 0]);
    assert_eq!(harness.effects(order).await, [1, 2, 3, 4]);
    // Every redrive is in the audit log, also one that failed again. A repeat changes nothing.
    assert_eq!(operator.redrive(last).await, [0, 0, 0]);
    assert_eq!(
        harness.audit().await,
        vec![audit_row("parked.redrive", last); 3]
    );
}

#[tokio::test]
async fn unreachable_database_during_redrive_changes_nothing() {
    let harness = Harness::create().await;
    let effects = Effects::default();
    let (order, operator) = one_parked(&harness, &effects).await;
    let id = operator.first_id().await;
    effects.heal();
    effects.fail(1);
    let (status, problem) = operator
        .request(Method::POST, &format!("/{id}/redrive"))
        .await;
    assert_eq!(
        (status.as_u16(), &problem["retryable"]),
        (503, &true.into())
    );
    assert_eq!(
        harness.queue(order).await,
        [(2, true), (3, false), (4, false)]
    );
    assert!(harness.audit().await.is_empty());
    assert_eq!(operator.redrive(id).await, [3, 0, 0]);
}

#[tokio::test]
async fn discarded_message_is_gone_and_the_rest_is_redriven() {
    let harness = Harness::create().await;
    let effects = Effects::default();
    let (order, operator) = one_parked(&harness, &effects).await;
    let ids: Vec<i64> = operator
        .list()
        .await
        .iter()
        .map(|it| it["id"].as_i64().unwrap())
        .collect();
    let (status, problem) = operator
        .request(Method::DELETE, &format!("/{}", ids[1]))
        .await;
    assert_eq!(
        (status.as_u16(), &problem["code"]),
        (409, &"not_the_failed_message".into())
    );
    assert_eq!(harness.parked_count().await, 3);
    assert!(harness.audit().await.is_empty());

    assert_eq!(operator.discard(ids[0]).await, (true, [2, 0, 0]));
    assert_eq!(operator.discard(ids[0]).await, (false, [0, 0, 0]));
    assert_eq!(harness.audit().await, [audit_row("parked.discard", ids[0])]);
    assert_eq!(harness.effects(order).await, [1, 3, 4]);
    // A redelivered copy is skipped, although the handler would accept it now.
    effects.heal();
    harness.topic.forget_group(&harness.group).await;
    let mut consumer = harness.consumer(harness.settings(), effects);
    assert_eq!(drain_parking(&mut consumer, 4).await, [0, 4, 0, 0]);
    assert_eq!(harness.effects(order).await, [1, 3, 4]);
    assert_eq!(harness.parked_count().await, 0);
}

#[tokio::test]
async fn redrive_crash_leaves_all_or_nothing() {
    for (point, left) in [("redrive.handled", 3), ("redrive.committed", 0)] {
        let harness = Harness::create().await;
        let effects = Effects::default();
        let (order, operator) = one_parked(&harness, &effects).await;
        let id = operator.first_id().await;
        effects.heal();
        let mut settings = harness.settings();
        settings.reached = match point {
            "redrive.handled" => |point| assert_ne!(point, "redrive.handled"),
            _ => |point| assert_ne!(point, "redrive.committed"),
        };
        let dying = harness.consumer(settings, effects.clone());
        let operator_of_dying = Operator::of(&dying, &harness.pool).await;
        operator_of_dying.redrive_dying(id).await;
        assert_eq!(harness.parked_count().await, left, "{point}");
        // The audit row commits with the change or not at all.
        let audited = i64::from(point == "redrive.committed");
        assert_eq!(harness.audit().await.len() as i64, audited, "{point}");
        operator.redrive(id).await;
        assert_eq!(harness.effects(order).await, [1, 2, 3, 4], "{point}");
    }
}

#[tokio::test]
async fn list_is_paged() {
    let harness = Harness::create().await;
    for number in 0..5 {
        harness.topic.publish_raw(0, &[], &number.to_string()).await;
    }
    let mut consumer = harness.consumer(harness.settings(), Effects::default());
    assert_eq!(drain_parking(&mut consumer, 5).await, [0, 0, 5, 0]);
    let operator = Operator::of(&consumer, &harness.pool).await;
    let mut seen = Vec::new();
    let mut path = "?limit=2".to_owned();
    loop {
        let (_, page) = operator.request(Method::GET, &path).await;
        let rows = page["data"].as_array().unwrap().clone();
        assert!(rows.len() <= 2);
        seen.extend(rows.iter().map(|it| it["offset"].as_i64().unwrap()));
        let Some(next) = page["next"].as_i64() else {
            break;
        };
        path = format!("?limit=2&after={next}");
    }
    assert_eq!(seen, [0, 1, 2, 3, 4]);
    let (status, problem) = operator.request(Method::GET, "?limit=many").await;
    assert_eq!(
        (status.as_u16(), &problem["code"]),
        (400, &"invalid_query".into())
    );
}

/// The hardest race: redrives empty a queue while consumers add to it.
#[tokio::test]
async fn concurrent_redrives_and_consumers_keep_order() {
    const ORDERS: usize = 6;
    const MESSAGES: i32 = 60;
    let harness = Harness::create().await;
    let orders: Vec<Uuid> = (0..ORDERS).map(|_| Uuid::new_v4()).collect();
    let effects = Effects::default();
    let mut settings = harness.settings();
    settings.tries_max = 1;
    settings.batch_messages_max = 5;
    settings.retry_pause = std::time::Duration::from_millis(1);
    let (first, _shutdown, _task) = harness
        .run_operated(settings.clone(), effects.clone())
        .await;
    let (second, _shutdown, _task) = harness.run_operated(settings, effects.clone()).await;
    let producing = async {
        for number in 1..=MESSAGES {
            let publish = (0..).zip(&orders).map(async |(partition, order)| {
                // The handler rejects every fourth message until it is parked.
                if number % 4 == 0 {
                    effects.poison(*order, number);
                }
                let event = event(*order, number);
                harness.topic.publish_to(partition % 3, &event).await;
            });
            join_all(publish).await;
        }
    };
    let operating = async {
        eventually("every message had its effect", async || {
            for row in first.list().await {
                let id = row["id"].as_i64().unwrap();
                if row["failed"] == true {
                    effects.cure_parked(&harness).await;
                }
                let (one, other) = (first.try_redrive(id), second.try_redrive(id));
                tokio::join!(one, other);
            }
            harness.effect_count().await >= ORDERS as i64 * i64::from(MESSAGES)
        })
        .await;
    };
    tokio::join!(producing, operating);
    let expected: Vec<i32> = (1..=MESSAGES).collect();
    for order in orders {
        assert_eq!(harness.effects(order).await, expected);
    }
    assert_eq!(harness.parked_count().await, 0);
    assert_eq!(harness.count("select count(*) from parked_orders").await, 0);
}
