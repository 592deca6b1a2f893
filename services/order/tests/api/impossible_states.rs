//! States that the service never writes. They are errors of the server, not of the client, and not a
//! short outage.

use crate::harness::{Harness, Stored, order, order_with};

/// No update of an order takes effect, as if another session had changed the locked row.
const IGNORE_UPDATES: &str = "
    create function ignore() returns trigger language plpgsql as $$ begin return null; end $$;
    create trigger ignore before update on orders for each row execute function ignore()";
/// No insert of an order takes effect, as if its reference were taken.
const IGNORE_INSERTS: &str = "
    create function ignore() returns trigger language plpgsql as $$ begin return null; end $$;
    create trigger ignore before insert on orders for each row execute function ignore()";

#[tokio::test]
async fn used_key_without_its_order_is_an_internal_error() {
    let harness = Harness::start().await;
    harness.post("k-1", &order()).await.expect(201);
    harness
        .run_sql("update idempotency_keys set response_version = 99; delete from order_items; delete from orders")
        .await;
    let again = harness.post("k-1", &order()).await;
    again.expect_problem(500, "internal_error");
}

#[tokio::test]
async fn taken_reference_without_its_order_is_an_internal_error() {
    let harness = Harness::start().await;
    harness.run_sql(IGNORE_INSERTS).await;
    let cart = order_with("reference", "cart-1");
    let response = harness.post("k-1", &cart).await;
    response.expect_problem(500, "internal_error");
    assert_eq!(harness.stored().await, Stored::default());
}

#[tokio::test]
async fn change_of_a_locked_order_is_an_internal_error() {
    let harness = Harness::start().await;
    let id = harness.order_in("declined").await;
    harness.run_sql(IGNORE_UPDATES).await;
    let cancelled = harness.delete(id).await;
    cancelled.expect_problem(500, "internal_error");
    let paid = harness.pay("k-1", id, "pm_other").await;
    paid.expect_problem(500, "internal_error");
}
