//! The provider hangs, drops connections, fails or is killed.

use endpoints::Service;
use endpoints::provider::Fault;

use crate::harness::Harness;

#[tokio::test]
async fn lost_charge_response_is_retried_with_the_same_key() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    let mut orders = Vec::new();
    for point in ["before_charge", "during_charge", "after_charge"] {
        for action in ["drop", "error", "hang"] {
            harness
                .set_fault(Fault {
                    point,
                    action,
                    delay_ms: None,
                    times: Some(1),
                    reference: None,
                })
                .await?;
            orders.push(harness.place().await?);
        }
    }
    harness.expect_shipped_once(&orders).await?;
    let query = "select sum(tries - 1) from payments where order_id = any($1)";
    let retried: i64 = sqlx::query_scalar(query)
        .bind(&orders)
        .fetch_one(&harness.databases.payment)
        .await?;
    assert!(
        retried >= 6,
        "the faults must have been applied; there were only {retried} retries"
    );
    harness.stop().await
}

#[tokio::test]
async fn killed_provider_charges_once_after_restart() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    let mut orders = harness.place_many(10).await?;
    harness.system.kill(Service::Psp.name()).await?;
    orders.extend(harness.place_many(10).await?);
    harness.expect_shipped_once(&orders).await?;
    harness.stop().await
}
