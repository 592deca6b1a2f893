//! Chapter: payment is killed after the provider took the money and before payment recorded it.
//!
//! The timing is deterministic. The provider holds its response, and payment is killed only after the
//! provider's ledger shows the charge. If the kill hits any other moment, the demo fails.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use endpoints::client::{new_key, order_body};
use endpoints::provider::{self, Fault, Faults};
use endpoints::status;
use tokio::time::Instant;
use uuid::Uuid;

use super::context::{Demo, SHIPPED_WITHIN, explain};

/// How long the provider holds its response: far longer than it takes to see the charge and kill.
const RESPONSE_DELAY_MS: u64 = 10_000;
const CHARGED_WITHIN: Duration = Duration::from_secs(20);
const CHARGE_POLL_INTERVAL: Duration = Duration::from_millis(10);
const RESTARTED_WITHIN: Duration = Duration::from_secs(20);

pub(super) async fn run(demo: &mut Demo<'_>) -> anyhow::Result<()> {
    demo.chapter("Payment is killed after the charge, before it records the result");
    let faults = demo.system.faults("demo: payment is killed mid-charge")?;
    // The fault applies to the next charge, so no other charge may be open.
    demo.wait_until_all_final().await?;
    hold_next_response(&faults).await?;
    let (_, id) = demo
        .place(
            "payment killed mid-charge",
            &new_key("demo-kill"),
            &order_body(3),
        )
        .await?;
    wait_for_charge(demo, id).await?;
    kill_between_charge_and_record(demo, id).await?;
    // The fault was for the call that was just killed. The next call finds a healthy provider.
    faults.clear().await?;
    watch_recovery(demo, id).await
}

async fn hold_next_response(faults: &Faults) -> anyhow::Result<()> {
    faults.clear().await?;
    let fault = Fault {
        point: "after_charge",
        action: "delay",
        delay_ms: Some(RESPONSE_DELAY_MS),
        times: Some(1),
        reference: None,
    };
    faults.arm(&fault).await?;
    explain(&format!(
        "A fault is armed: the provider charges the next order immediately and responds {} s later.",
        RESPONSE_DELAY_MS / 1000
    ));
    Ok(())
}

async fn wait_for_charge(demo: &Demo<'_>, id: Uuid) -> anyhow::Result<()> {
    let deadline = Instant::now() + CHARGED_WITHIN;
    loop {
        let counts = provider::charges_per_order(&demo.psp, &[id]).await?;
        if counts.get(&id).is_some_and(|count| *count > 0) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            bail!(
                "the provider did not charge order {id} within {} s",
                CHARGED_WITHIN.as_secs()
            );
        }
        tokio::time::sleep(CHARGE_POLL_INTERVAL).await;
    }
}

async fn kill_between_charge_and_record(demo: &Demo<'_>, id: Uuid) -> anyhow::Result<()> {
    let pid = demo
        .system
        .pid("payment")
        .context("payment is not running")?;
    let before = payment_row(demo, id).await?;
    demo.system.kill("payment").await?;
    // Read again after the process is gone: only this proves that it recorded nothing in between.
    let after = payment_row(demo, id).await?;
    demo.print_charges(id).await?;
    explain("The customer is charged. Payment's own table, before and after the kill:");
    before.print();
    explain(&format!("$ kill -9 {pid}   (payment)"));
    after.print();
    ensure!(
        before.status == status::ATTEMPT_PENDING && after.status == status::ATTEMPT_PENDING,
        "the kill missed the window between charge and record: {} before, {} after",
        before.status,
        after.status
    );
    Ok(())
}

async fn watch_recovery(demo: &Demo<'_>, id: Uuid) -> anyhow::Result<()> {
    demo.system.wait_ready("payment", RESTARTED_WITHIN).await?;
    let pid = demo
        .system
        .pid("payment")
        .context("payment was not restarted")?;
    explain(&format!("The lab has restarted payment, pid {pid}."));
    explain(
        "The dead process still holds the lease on the attempt. When the lease expires, the new",
    );
    explain(&format!(
        "process sends the charge again with the same key: pay:{id}:1."
    ));
    let waiting_since = Instant::now();
    demo.client
        .wait_for_status(id, "shipped", SHIPPED_WITHIN)
        .await?;
    explain(&format!(
        "The order shipped {:.1} s after the restart.",
        waiting_since.elapsed().as_secs_f64()
    ));
    let row = payment_row(demo, id).await?;
    row.print();
    ensure!(
        row.tries >= 2,
        "payment shows {} try: the charge was not sent again",
        row.tries
    );
    let count = demo.print_charges(id).await?;
    ensure!(count == 1, "the order was charged {count} times");
    explain(
        "Payment called twice, and the provider charged once: it recognised the key and returned",
    );
    explain("the result of the first call.");
    Ok(())
}

/// The order's attempt in payment's own table.
struct PaymentRow {
    status: String,
    tries: i32,
}

impl PaymentRow {
    fn print(&self) {
        println!(
            "   payment=# select status, tries from payments where order_id = …;  →  {}, {}",
            self.status, self.tries
        );
    }
}

async fn payment_row(demo: &Demo<'_>, id: Uuid) -> anyhow::Result<PaymentRow> {
    let (status, tries) = sqlx::query_as(
        "select status, tries::int4 from payments where order_id = $1 and attempt = 1",
    )
    .bind(id)
    .fetch_one(&demo.payment)
    .await
    .context("reading the payment table")?;
    Ok(PaymentRow { status, tries })
}
