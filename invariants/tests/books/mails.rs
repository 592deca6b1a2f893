//! Failed payments and their mails: only those after which the order waits for its customer have one.

use invariants::{Databases, settled};

use crate::{databases, run};

const ORDER: &str = "00000000-0000-0000-0000-000000000007";
const ADD_MAIL: &str = "
    insert into receipts (event_id, mail_type, order_id, attempt, recipient, lines, status, sent_at,
                          correlation_id)
    values (gen_random_uuid(), 'payment_failure', '00000000-0000-0000-0000-000000000007', 1, 'a@b',
            '[]', 'sent', now(), 'c')";

/// What the checker says about mails.
async fn differences(databases: &Databases) -> Vec<String> {
    let found = settled(databases).await.unwrap();
    let mails = found
        .iter()
        .filter(|it| it.invariant == "E1 one mail per outcome");
    mails.map(|it| it.detail.clone()).collect()
}

#[tokio::test]
async fn failed_payment_has_one_mail_unless_order_reopened_it() {
    let databases = databases().await;
    run(
        &databases.order,
        "insert into orders (id, principal_id, customer_id, status, version, amount, currency,
                             payment_method, content_hash, correlation_id)
         values ('00000000-0000-0000-0000-000000000007', 'p', 'c', 'failed', 2, 5000, 'USD', 'pm',
                 '', 'c')",
    )
    .await;
    run(
        &databases.payment,
        "insert into payments (order_id, attempt, amount, currency, payment_method, lines, status,
                               failure_code, correlation_id)
         values ('00000000-0000-0000-0000-000000000007', 1, 5000, 'USD', 'pm', '[]', 'failed',
                 'provider_error', 'c')",
    )
    .await;
    let of = |logged, expected| {
        format!("{ORDER}: {logged} mails of type payment_failure, not {expected} to {expected}")
    };
    assert_eq!(differences(&databases).await, [of(0, 1)]);
    run(&databases.receipt, ADD_MAIL).await;
    assert_eq!(differences(&databases).await, [""; 0]);
    run(&databases.receipt, ADD_MAIL).await;
    assert_eq!(differences(&databases).await, [of(2, 1)]);

    // Order opened the next attempt automatically: the customer hears nothing of the failed one.
    run(&databases.order, "update orders set reopened = 1").await;
    assert_eq!(differences(&databases).await, [of(2, 0)]);
    run(&databases.receipt, "delete from receipts").await;
    assert_eq!(differences(&databases).await, [""; 0]);

    // After a cancellation request the customer cannot pay again.
    run(&databases.order, "update orders set reopened = 0").await;
    run(
        &databases.payment,
        "update payments set rejected_at = now()",
    )
    .await;
    let found = differences(&databases).await;
    let failure = found.iter().any(|it| it.contains("payment_failure"));
    assert!(!failure, "{found:?}");
}
