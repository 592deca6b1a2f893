//! Chapter: a paid order cannot ship, so it is refunded.

use anyhow::ensure;
use endpoints::client::{new_key, order_body};

use super::context::{Demo, FinalStatus, SHIPPED_WITHIN, explain};

pub(super) async fn run(demo: &mut Demo<'_>) -> anyhow::Result<()> {
    demo.chapter("A paid order is out of stock and is refunded once");
    let body = order_body(1).replace("SKU-99", "SKU-sold-out");
    let response = demo.send(&new_key("demo-refund"), &body).await?;
    ensure!(response.status == 201, "the order was not accepted");
    let id = response.order_id()?;
    demo.record_as("out of stock", id, FinalStatus::Refunded);
    demo.client
        .wait_for_status(id, "refunded", SHIPPED_WITHIN)
        .await?;
    explain(
        "Payment charged the card, fulfilment rejected the order, payment refunded the charge.",
    );
    explain("The order's status is now: refunded. The keys in the provider's database:");
    let (charges, refunds): (Vec<String>, Vec<String>) = sqlx::query_as(
        "select array(select idempotency_key from charges where reference = $1),
                array(select idempotency_key from refunds where reference = $1)",
    )
    .bind(id.to_string())
    .fetch_one(&demo.psp)
    .await?;
    println!("   psp=# select idempotency_key from charges …;  →  {charges:?}");
    println!("   psp=# select idempotency_key from refunds …;  →  {refunds:?}");
    ensure!(
        refunds == [format!("refund:{id}:1")],
        "refunded under {refunds:?}"
    );
    explain(
        "The refund's key follows from the order, so a retry after a crash cannot refund twice.",
    );
    Ok(())
}
