//! The last chapter: every order of the story in the PSP's own books. The demo stands or falls here.

use anyhow::{bail, ensure};
use uuid::Uuid;

use super::story::{Story, say};
use crate::client::psp;

/// Fewer orders would mean that a chapter forgot to name its own, and the table would prove nothing.
const ORDERS_MIN: usize = 3;

pub(super) async fn tell(story: &mut Story<'_>) -> anyhow::Result<()> {
    story.chapter("The PSP's books");
    let orders = story.orders();
    ensure!(
        orders.len() >= ORDERS_MIN,
        "only {} orders to look for",
        orders.len()
    );
    story.wait_until_all_shipped().await?;
    let ids: Vec<Uuid> = orders.iter().map(|(_, id)| *id).collect();
    let counts = psp::charges_per_order(&story.psp, &ids).await?;
    say("select count(*) from charges where reference = <order id>");
    println!(
        "   ┌──────────────────────────────────────┬─────────────────────────────┬─────────┬───────┐"
    );
    println!(
        "   │ order                                │ what happened to it         │ status  │ count │"
    );
    println!(
        "   ├──────────────────────────────────────┼─────────────────────────────┼─────────┼───────┤"
    );
    for (what, id) in orders {
        println!(
            "   │ {id} │ {what:<27} │ shipped │ {:>5} │",
            counts.get(id).copied().unwrap_or_default()
        );
    }
    println!(
        "   └──────────────────────────────────────┴─────────────────────────────┴─────────┴───────┘"
    );
    let twice = psp::references_charged_twice(&story.psp).await?;
    if let Some((id, count)) = counts.iter().find(|(_, count)| **count != 1) {
        bail!("order {id} has {count} charges");
    }
    ensure!(twice.is_empty(), "charged more than once: {twice:?}");
    say("One order, one charge. Every one of them.");
    Ok(())
}
