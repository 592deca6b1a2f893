//! The last chapter: every order of the story in the PSP's own books. The demo stands or falls here.

use std::collections::HashMap;

use anyhow::ensure;
use uuid::Uuid;

use super::story::{Story, Told, say};
use endpoints::provider;

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
    story.wait_until_all_ended().await?;
    let ids: Vec<Uuid> = orders.iter().map(|told| told.id).collect();
    let charges = provider::charges_per_order(&story.psp, &ids).await?;
    let refunds = provider::refunds_per_order(&story.psp, &ids).await?;
    say("select count(*) from charges where reference = <order id>, and the same from refunds");
    let line = |left: &str, cross: &str, right: &str| {
        let columns = [38, 27, 10, 9, 9].map(|width| "─".repeat(width));
        println!("   {left}{}{right}", columns.join(cross));
    };
    line("┌", "┬", "┐");
    println!(
        "   │ {:<36} │ {:<25} │ {:<8} │ charges │ refunds │",
        "order", "what happened to it", "status"
    );
    line("├", "┼", "┤");
    let count = |counts: &HashMap<Uuid, i64>, id| counts.get(id).copied().unwrap_or_default();
    for Told { what, id, end } in orders {
        println!(
            "   │ {id} │ {what:<25} │ {:<8} │ {:>7} │ {:>7} │",
            end.status(),
            count(&charges, id),
            count(&refunds, id)
        );
    }
    line("└", "┴", "┘");
    for Told { id, end, .. } in orders {
        let (charged, refunded) = (count(&charges, id), count(&refunds, id));
        ensure!(charged == 1, "order {id} has {charged} charges");
        ensure!(
            refunded == end.refunds(),
            "order {id} has {refunded} refunds"
        );
    }
    let twice = provider::references_charged_twice(&story.psp).await?;
    ensure!(twice.is_empty(), "charged more than once: {twice:?}");
    say("One order, one charge. Every one of them; and one refund where it did not ship.");
    Ok(())
}
