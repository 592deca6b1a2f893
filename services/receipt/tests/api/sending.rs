//! Each mail is sent once, even by parallel senders.

use std::collections::BTreeSet;

use crate::harness::{Harness, LONG};
use crate::stepper::Stepper;

#[tokio::test]
async fn receipt_is_sent_once_and_recorded() {
    let harness = Harness::create().await;
    let order = harness.log_new().await;
    assert_eq!(harness.try_once().await, 1);
    assert_eq!(harness.row(order).await.state(), ("sent", 1, 1));
    assert_eq!(harness.row(order).await.last_error, None);

    harness.pass_time().await;
    assert_eq!(harness.try_once().await, 0);
    let mails = harness.mails();
    assert_eq!(mails.len(), 1);
    let mail = &mails[0];
    assert_eq!(mail.recipient(), "cust-88@customers.example");
    assert_eq!(mail.header("return-path"), Some("<receipts@shop.example>"));
    let id = format!("<{order}@shop.example>");
    assert_eq!(mail.header("message-id"), Some(&*id));
    let correlation_id = format!("corr-{order}");
    assert_eq!(mail.header("x-correlation-id"), Some(&*correlation_id));
    for part in [&*format!("Order:  {order}\r\n"), "50.00 USD", "2 x SKU-1"] {
        assert!(mail.text.contains(part), "{part:?} in {}", mail.text);
    }
}

#[tokio::test]
async fn receipt_logged_twice_is_sent_once() {
    let harness = Harness::create().await;
    let order = harness.log_new().await;
    harness.try_once().await;
    harness.log(order).await;
    assert_eq!(harness.try_once().await, 0);
    assert_eq!(harness.row(order).await.state(), ("sent", 1, 1));
    assert_eq!(harness.mails().len(), 1);
}

#[tokio::test]
async fn closed_idle_connection_costs_no_try() {
    let mut harness = Harness::create().await;
    let mut stepper = harness.stepper(LONG);
    for _ in 0..3 {
        let order = harness.log_new().await;
        let tried = stepper.send().await;
        assert_eq!(harness.record(&tried).await, 1);
        assert_eq!(harness.row(order).await.state(), ("sent", 1, 1));
        harness.restart_mail_server().await;
    }
    assert_eq!(harness.mails().len(), 3);
}

#[tokio::test]
async fn parallel_senders_never_send_the_same_mail() {
    let harness = Harness::create().await;
    let mut orders = BTreeSet::new();
    for _ in 0..100 {
        orders.insert(harness.log_new().await);
    }
    let work = async |mut stepper: Stepper| {
        loop {
            let tried = stepper.send().await;
            if tried.is_empty() {
                return;
            }
            harness.record(&tried).await;
        }
    };
    let [a, b, c] = [(); 3].map(|()| work(harness.stepper(LONG)));
    tokio::join!(a, b, c);
    let mails = harness.mails();
    let ids: BTreeSet<&str> = mails
        .iter()
        .filter_map(|m| m.header("message-id"))
        .collect();
    assert_eq!((mails.len(), ids.len()), (100, 100));
    harness.sent(100).await;
}

#[tokio::test]
async fn mail_that_cannot_be_composed_fails_and_is_not_sent() {
    let harness = Harness::create().await;
    let order = uuid::Uuid::new_v4();
    harness
        .log_for(order, "customer\r\nBcc: other@example.com")
        .await;
    harness.try_once().await;
    assert_eq!(harness.row(order).await.state(), ("failed", 1, 0));
    assert_eq!(harness.mails().len(), 0);
}
