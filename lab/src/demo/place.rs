//! Chapter: one order, one charge, when nothing fails.

use anyhow::ensure;
use endpoints::client::{new_key, order_body};

use super::context::{Demo, Placed, SHIPPED_WITHIN, explain};

pub(super) async fn run(demo: &mut Demo<'_>) -> anyhow::Result<Placed> {
    demo.chapter("An order is placed, charged and shipped");
    let (key, body) = (new_key("demo"), order_body(2));
    let (response, id) = demo.place("placed once, retried", &key, &body).await?;
    explain("The order is accepted. Payment and fulfilment receive it through Kafka.");
    demo.client
        .wait_for_status(id, "shipped", SHIPPED_WITHIN)
        .await?;
    explain("Its status is now: shipped. The provider's own database shows one charge:");
    let count = demo.print_charges(id).await?;
    ensure!(count == 1, "a shipped order has {count} charges");
    Ok(Placed {
        key,
        body,
        response,
    })
}
