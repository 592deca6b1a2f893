//! Chapter: one order, one charge, when nothing goes wrong.

use anyhow::ensure;

use super::story::{Placed, SHIPPED_WITHIN, Story, say};
use endpoints::client::{new_key, order_body};

pub(super) async fn tell(story: &mut Story<'_>) -> anyhow::Result<Placed> {
    story.chapter("An order is placed, charged and shipped");
    let (key, body) = (new_key("demo"), order_body(2));
    let (answer, id) = story.place("placed once, retried", &key, &body).await?;
    say("The order is accepted; payment and fulfilment follow through Kafka.");
    story
        .client
        .wait_for_status(id, "shipped", SHIPPED_WITHIN)
        .await?;
    say("GET /orders/{id} says: shipped");
    let count = story.show_charges(id).await?;
    ensure!(count == 1, "a shipped order has {count} charges");
    Ok(Placed { key, body, answer })
}
