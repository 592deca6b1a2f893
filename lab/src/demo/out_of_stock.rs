//! Chapter: what was paid cannot be shipped, so the money goes back.

use anyhow::ensure;

use super::story::{End, SHIPPED_WITHIN, Story, say};
use endpoints::client::{new_key, order_body};

pub(super) async fn tell(story: &mut Story<'_>) -> anyhow::Result<()> {
    story.chapter("Paid, and out of stock: the money goes back, once");
    let body = order_body(1).replace("SKU-99", "SKU-sold-out");
    let answer = story.send(&new_key("demo-refund"), &body).await?;
    ensure!(answer.status == 201, "the order was not accepted");
    let id = answer.order_id()?;
    story.remember_as("out of stock", id, End::Refunded);
    story
        .client
        .wait_for_status(id, "refunded", SHIPPED_WITHIN)
        .await?;
    say("Payment charged, fulfilment refused, payment gave back: GET /orders/… says: refunded.");
    let (charges, refunds): (Vec<String>, Vec<String>) = sqlx::query_as(
        "select array(select idempotency_key from charges where reference = $1),
                array(select idempotency_key from refunds where reference = $1)",
    )
    .bind(id.to_string())
    .fetch_one(&story.psp)
    .await?;
    println!("   psp=# select idempotency_key from charges …;  →  {charges:?}");
    println!("   psp=# select idempotency_key from refunds …;  →  {refunds:?}");
    ensure!(
        refunds == [format!("refund:{id}:1")],
        "refunded {}",
        refunds.len()
    );
    say("A refund has its own deterministic key, so a crash cannot make it two.");
    Ok(())
}
