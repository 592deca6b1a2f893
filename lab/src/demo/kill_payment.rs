//! Chapter: payment is killed in the worst moment, after the PSP took the money and before payment
//! could write that down. The moment is not left to luck: the PSP holds its reply back, and the kill
//! follows only when its own books show the charge. If the kill lands anywhere else, the demo fails.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::time::Instant;
use uuid::Uuid;

use super::story::{SHIPPED_WITHIN, Story, say};
use endpoints::Service;
use endpoints::client::{new_key, order_body};
use endpoints::provider::{self, Fault};

/// How long the PSP keeps its reply back: far longer than it takes to see the charge and kill.
const REPLY_DELAY_MS: u64 = 10_000;
const CHARGED_WITHIN: Duration = Duration::from_secs(20);
const CHARGE_POLL_INTERVAL: Duration = Duration::from_millis(10);
const RESTARTED_WITHIN: Duration = Duration::from_secs(20);

pub(super) async fn tell(story: &mut Story<'_>) -> anyhow::Result<()> {
    story.chapter("Payment is killed after the money moved, before it wrote that down");
    let psp_url = story.system.url(Service::Psp).to_owned();
    // The fault hits whatever is charged next, so nothing else may be on its way.
    story.wait_until_all_ended().await?;
    hold_next_reply(&psp_url).await?;
    let (_, id) = story
        .place(
            "payment killed mid-charge",
            &new_key("demo-kill"),
            &order_body(3),
        )
        .await?;
    wait_for_charge(story, id).await?;
    kill_in_the_window(story, id).await?;
    // The delay was for the call that just died; what follows should meet a healthy PSP.
    provider::clear_faults(&psp_url).await?;
    watch_recovery(story, id).await
}

async fn hold_next_reply(psp_url: &str) -> anyhow::Result<()> {
    provider::clear_faults(psp_url).await?;
    let fault = Fault {
        point: "after_charge",
        action: "delay",
        delay_ms: Some(REPLY_DELAY_MS),
        times: Some(1),
        reference: None,
    };
    provider::arm_fault(psp_url, &fault).await?;
    say(&format!(
        "The PSP is told to charge the next order at once, but to reply {} s later.",
        REPLY_DELAY_MS / 1000
    ));
    Ok(())
}

async fn wait_for_charge(story: &Story<'_>, id: Uuid) -> anyhow::Result<()> {
    let deadline = Instant::now() + CHARGED_WITHIN;
    loop {
        let counts = provider::charges_per_order(&story.psp, &[id]).await?;
        if counts.get(&id).is_some_and(|count| *count > 0) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            bail!(
                "the PSP did not charge order {id} within {} s",
                CHARGED_WITHIN.as_secs()
            );
        }
        tokio::time::sleep(CHARGE_POLL_INTERVAL).await;
    }
}

async fn kill_in_the_window(story: &Story<'_>, id: Uuid) -> anyhow::Result<()> {
    let pid = story
        .system
        .pid("payment")
        .context("payment is not running")?;
    let before = payment_row(story, id).await?;
    story.system.kill("payment").await?;
    // Read again now that the process is gone: only this proves that nothing was recorded in between.
    let after = payment_row(story, id).await?;
    story.show_charges(id).await?;
    say("The money has moved. Payment's own table, read before the kill and after it:");
    before.show();
    say(&format!("$ kill -9 {pid}   (payment)"));
    after.show();
    ensure!(
        before.status == "pending" && after.status == "pending",
        "the kill missed the window between charge and record: {} before, {} after",
        before.status,
        after.status
    );
    Ok(())
}

async fn watch_recovery(story: &Story<'_>, id: Uuid) -> anyhow::Result<()> {
    story.system.wait_ready("payment", RESTARTED_WITHIN).await?;
    let pid = story
        .system
        .pid("payment")
        .context("payment was not restarted")?;
    say(&format!(
        "The supervisor has started payment again, pid {pid}. Nobody tells it about the order:"
    ));
    say(&format!(
        "it takes it up when the dead process's lease runs out, under the same key pay:{id}:1."
    ));
    let waiting_since = Instant::now();
    story
        .client
        .wait_for_status(id, "shipped", SHIPPED_WITHIN)
        .await?;
    say(&format!(
        "GET /orders/{id} says: shipped, {:.1} s later",
        waiting_since.elapsed().as_secs_f64()
    ));
    let row = payment_row(story, id).await?;
    row.show();
    ensure!(
        row.tries >= 2,
        "payment shows {} try, so the charge was not sent again",
        row.tries
    );
    let count = story.show_charges(id).await?;
    ensure!(count == 1, "the order was charged {count} times");
    say("The second call met its own key at the PSP and got the first charge's answer back.");
    Ok(())
}

struct PaymentRow {
    status: String,
    tries: i32,
}

impl PaymentRow {
    fn show(&self) {
        println!(
            "   payment=# select status, tries from payments where order_id = …;  →  {}, {}",
            self.status, self.tries
        );
    }
}

async fn payment_row(story: &Story<'_>, id: Uuid) -> anyhow::Result<PaymentRow> {
    let (status, tries) = sqlx::query_as(
        "select status, tries::int4 from payments where order_id = $1 and attempt = 1",
    )
    .bind(id)
    .fetch_one(&story.payment)
    .await
    .context("reading payment's own table")?;
    Ok(PaymentRow { status, tries })
}
