//! A decline, a failed payment, a cancellation and a refund are mailed too, each once, to the right customer.

use events::{
    Envelope, OrderCancelled, OrderPaymentFailed, PaymentDeclined, PaymentFailed, PaymentRefunded,
    PaymentVoided,
};
use money::{Currency, Money};
use testkit::test_topic::sealed;
use uuid::Uuid;

use crate::consuming::consume;
use crate::harness::{Harness, eventually};
use crate::topic::Topic;

fn usd() -> Currency {
    "USD".parse().unwrap()
}

fn declined(order_id: Uuid, attempt: i32, customer_id: &str) -> Envelope {
    let event = PaymentDeclined {
        v: 2,
        order_id,
        attempt,
        decline_code: "insufficient_funds".to_owned(),
        customer_id: customer_id.to_owned(),
        due: Some(Money::new(5_000, usd()).unwrap()),
    };
    sealed("payment", &event)
}

fn voided(order_id: Uuid, attempt: i32, customer_id: &str) -> Envelope {
    let event = PaymentVoided {
        v: 2,
        order_id,
        attempt,
        customer_id: customer_id.to_owned(),
        reason: "cancelled".to_owned(),
    };
    sealed("payment", &event)
}

pub(crate) fn refunded(order_id: Uuid, attempt: i32, customer_id: &str) -> Envelope {
    let event = PaymentRefunded {
        v: 2,
        order_id,
        attempt,
        charge_id: format!("ch_{order_id}"),
        refund_id: format!("re_{order_id}"),
        amount: 5_000,
        currency: usd(),
        reason: "out_of_stock".to_owned(),
        customer_id: customer_id.to_owned(),
    };
    sealed("payment", &event)
}

fn order_cancelled(order_id: Uuid, attempt: i32, customer_id: &str) -> Envelope {
    let event = OrderCancelled {
        v: 1,
        order_id,
        attempt,
        customer_id: customer_id.to_owned(),
        reason: "cancelled".to_owned(),
    };
    sealed("order", &event)
}

/// Payment's event. Order may open the next attempt after it, so it has no mail.
fn failed(order_id: Uuid, attempt: i32, customer_id: &str) -> Envelope {
    let event = PaymentFailed {
        v: 2,
        order_id,
        attempt,
        failure_code: "provider_error".to_owned(),
        retry: true,
        customer_id: customer_id.to_owned(),
    };
    sealed("payment", &event)
}

fn payment_failed(order_id: Uuid, attempt: i32, customer_id: &str) -> Envelope {
    let event = OrderPaymentFailed {
        v: 1,
        order_id,
        attempt,
        customer_id: customer_id.to_owned(),
        failure_code: "provider_error".to_owned(),
        due: Money::new(5_000, usd()).unwrap(),
    };
    sealed("order", &event)
}

/// The same event as an older release published it: without these members.
fn of_version_1(mut envelope: Envelope) -> Envelope {
    let mut payload: serde_json::Value = serde_json::from_str(&envelope.payload).unwrap();
    let members = payload.as_object_mut().unwrap();
    members.insert("v".to_owned(), 1.into());
    for added in ["customer_id", "due"] {
        members.remove(added);
    }
    envelope.payload = payload.to_string();
    envelope
}

/// The subjects of an order's mails, without the order id and in alphabetical order.
fn subjects(harness: &Harness, order_id: Uuid) -> Vec<String> {
    let order_id = order_id.to_string();
    let mails = harness.mails();
    let mut subjects: Vec<String> = mails
        .iter()
        .filter(|mail| mail.text.contains(&order_id))
        .map(|mail| mail.header("subject").unwrap().replace(&order_id, "X"))
        .collect();
    subjects.sort_unstable();
    subjects
}

#[tokio::test]
async fn each_outcome_is_mailed_once_however_often_published() {
    let harness = Harness::create().await;
    let topic = Topic::create().await;
    let [paid_again, cancelled, given_up, refund] = [(); 4].map(|()| Uuid::new_v4());
    let reopened = Uuid::new_v4();
    for _ in 0..3 {
        topic.captured(None, refund, "ann.lee").await;
        for envelope in [
            declined(paid_again, 1, "ann.lee"),
            declined(paid_again, 2, "ann.lee"),
            failed(reopened, 1, "ann.lee"),
            failed(reopened, 2, "ann.lee"),
            payment_failed(reopened, 2, "ann.lee"),
            voided(cancelled, 1, "ann.lee"),
            order_cancelled(given_up, 1, "ann.lee"),
            refunded(refund, 1, "ann.lee"),
        ] {
            topic.publish_to(None, &envelope).await;
        }
    }
    let group = format!("receipt-{}", Uuid::new_v4());
    let running = consume(&harness, &topic, &group).await;
    harness.sent(7).await;
    eventually("every message is processed", async || {
        harness
            .count("select count(*) from processed_messages")
            .await
            == 7
    })
    .await;
    running.stop().await;
    let declined = "Payment declined for order X";
    assert_eq!(subjects(&harness, paid_again), [declined, declined]);
    assert_eq!(subjects(&harness, reopened), ["Payment failed for order X"]);
    for order in [cancelled, given_up] {
        assert_eq!(subjects(&harness, order), ["Your order X is cancelled"]);
    }
    let of_refund = ["Your receipt for order X", "Your refund for order X"];
    assert_eq!(subjects(&harness, refund), of_refund);
    for mail in harness.mails() {
        assert_eq!(mail.recipient(), "ann.lee@customers.example");
        let has_amount = mail.text.contains("50.00 USD");
        assert_eq!(
            has_amount,
            !mail.text.contains("is cancelled"),
            "{}",
            mail.text
        );
    }
}

#[tokio::test]
async fn old_event_goes_to_the_recipient_of_an_earlier_mail() {
    // Only this test of the binary reads metrics, so only it sets them up.
    telemetry::metric::init().unwrap();
    let harness = Harness::create().await;
    let topic = Topic::create().await;
    let (known, unknown) = (Uuid::new_v4(), Uuid::new_v4());
    topic.captured(None, known, "ann.lee").await;
    for order in [known, unknown] {
        let refunded = of_version_1(refunded(order, 1, "ann.lee"));
        topic.publish_to(None, &refunded).await;
        let declined = of_version_1(declined(order, 2, "ann.lee"));
        topic.publish_to(None, &declined).await;
    }
    let group = format!("receipt-{}", Uuid::new_v4());
    let running = consume(&harness, &topic, &group).await;
    eventually("every message is processed", async || {
        harness
            .count("select count(*) from processed_messages")
            .await
            == 5
    })
    .await;
    harness.sent(3).await;
    let metrics = format!("http://127.0.0.1:{}/metrics", running.port);
    let metrics = reqwest::get(metrics).await.unwrap().text().await.unwrap();
    let counted = "mails_without_customer_total 2";
    assert!(metrics.lines().any(|line| line == counted), "{metrics}");
    running.stop().await;
    assert_eq!(
        subjects(&harness, unknown),
        [""; 0],
        "no address to send to"
    );
    let of_known = [
        "Payment declined for order X",
        "Your receipt for order X",
        "Your refund for order X",
    ];
    assert_eq!(subjects(&harness, known), of_known);
    for mail in harness.mails() {
        assert_eq!(mail.recipient(), "ann.lee@customers.example");
    }
}
