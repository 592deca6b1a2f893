//! The last chapter: every order of the demo in the provider's own books. If one order does not have
//! exactly one charge, the demo fails here.

use std::collections::HashMap;

use anyhow::ensure;
use endpoints::provider;
use uuid::Uuid;

use super::context::{Demo, DemoOrder, explain};

/// With fewer orders, a chapter failed to record its own, and the table would prove nothing.
const ORDERS_MIN: usize = 3;

pub(super) async fn run(demo: &mut Demo<'_>) -> anyhow::Result<()> {
    demo.chapter("The provider's books: one charge per order");
    let orders = demo.orders();
    ensure!(
        orders.len() >= ORDERS_MIN,
        "only {} orders were recorded",
        orders.len()
    );
    demo.wait_until_all_final().await?;
    let ids: Vec<Uuid> = orders.iter().map(|order| order.id).collect();
    let charges = provider::charges_per_order(&demo.psp, &ids).await?;
    let refunds = provider::refunds_per_order(&demo.psp, &ids).await?;
    explain("The numbers are counts of rows in the provider's tables `charges` and `refunds`.");
    print_table(orders, &charges, &refunds);
    for DemoOrder { id, expected, .. } in orders {
        let (charged, refunded) = (count(&charges, id), count(&refunds, id));
        ensure!(charged == 1, "order {id} has {charged} charges");
        ensure!(
            refunded == expected.refunds(),
            "order {id} has {refunded} refunds"
        );
    }
    let twice = provider::references_charged_twice(&demo.psp).await?;
    ensure!(twice.is_empty(), "charged more than once: {twice:?}");
    explain("Every order has exactly one charge. The order that did not ship has one refund.");
    explain("No other order in the provider's books was charged twice either.");
    Ok(())
}

fn print_table(orders: &[DemoOrder], charges: &HashMap<Uuid, i64>, refunds: &HashMap<Uuid, i64>) {
    let line = |left: &str, cross: &str, right: &str| {
        let columns = [38, 27, 10, 9, 9].map(|width| "─".repeat(width));
        println!("   {left}{}{right}", columns.join(cross));
    };
    line("┌", "┬", "┐");
    println!(
        "   │ {:<36} │ {:<25} │ {:<8} │ charges │ refunds │",
        "order", "what happened", "status"
    );
    line("├", "┼", "┤");
    for DemoOrder {
        label,
        id,
        expected,
    } in orders
    {
        println!(
            "   │ {id} │ {label:<25} │ {:<8} │ {:>7} │ {:>7} │",
            expected.as_str(),
            count(charges, id),
            count(refunds, id)
        );
    }
    line("└", "┴", "┘");
}

fn count(counts: &HashMap<Uuid, i64>, id: &Uuid) -> i64 {
    counts.get(id).copied().unwrap_or_default()
}
