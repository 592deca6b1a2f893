//! Mails that are logged already leased by the process that consumes their event.

use receipt::store::receipts::{self, NewLease};
use uuid::Uuid;

use crate::harness::{Harness, LONG};

#[tokio::test]
async fn mail_logged_leased_is_left_to_its_process() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    let log = async || {
        let lease = NewLease {
            token: Some(Uuid::new_v4()),
            lease: LONG,
            mails: &[true],
        };
        let new = Harness::new_mail(order, "cust-88@customers.example");
        let mut connection = harness.pool.acquire().await.unwrap();
        let leased = receipts::log(&mut connection, &[new], Some(&lease)).await;
        leased.unwrap().len()
    };
    assert_eq!(log().await, 1);
    assert_eq!(harness.row(order).await.state(), ("pending", 1, 1));
    assert_eq!(harness.stepper(LONG).lease().await, 0, "the lease is valid");
    assert_eq!(log().await, 0, "it is known");

    // Its process died: the mail may have been sent once.
    harness.pass_time().await;
    assert_eq!(harness.try_once().await, 1);
    assert_eq!(harness.row(order).await.state(), ("sent", 2, 2));
}
