//! Orders without faults.

use endpoints::client::{new_key, order_body};

use crate::harness::{Harness, SETTLE_TIMEOUT, options};

#[tokio::test]
async fn order_is_charged_once_and_ships() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    let orders = harness.place_many(3).await?;
    harness.expect_shipped_once(&orders).await?;
    harness.stop().await
}

#[tokio::test]
async fn declined_card_moves_no_money() -> anyhow::Result<()> {
    let harness = Harness::start(options()).await?;
    for method in [
        "pm_card_declined",
        "pm_card_insufficient_funds",
        "pm_card_expired",
        "pm_made_up",
    ] {
        let body = order_body(1).replace("pm_card_ok", method);
        let id = harness.place_with(&new_key("declined"), &body).await?;
        harness
            .client
            .wait_for_status(id, "declined", SETTLE_TIMEOUT)
            .await?;
    }
    let charges: i64 = sqlx::query_scalar("select count(*) from charges")
        .fetch_one(&harness.databases.psp)
        .await?;
    assert_eq!(charges, 0);
    harness.expect_settled().await?;
    harness.stop().await
}
