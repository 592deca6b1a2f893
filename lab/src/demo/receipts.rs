//! Chapter: every paid order has exactly one receipt.

use std::time::Duration;

use anyhow::{Context, ensure};
use testkit::smtp_sink::{Mail, mails};
use tokio::time::Instant;

use super::context::{Demo, explain};

const MAILED_WITHIN: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(super) async fn run(demo: &mut Demo<'_>) -> anyhow::Result<()> {
    demo.chapter("Every customer gets one receipt by e-mail");
    demo.wait_until_all_final().await?;
    let deadline = Instant::now() + MAILED_WITHIN;
    let all = loop {
        let all = mails(&demo.system.endpoints().mails_dir)?;
        let missing = demo
            .orders()
            .iter()
            .find(|order| count(&all, order.id) == 0);
        match missing {
            None => break all,
            Some(order) => ensure!(Instant::now() < deadline, "no mail for order {}", order.id),
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    };
    for order in demo.orders() {
        let mails = count(&all, order.id);
        ensure!(mails == 1, "{mails} mails for order {}", order.id);
    }
    explain("The receipt of the first order:");
    print_first(demo, &all)?;
    explain(&format!(
        "The {} orders above have one receipt each, although payment was killed and clients retried.",
        demo.orders().len()
    ));
    Ok(())
}

fn print_first(demo: &Demo<'_>, all: &[Mail]) -> anyhow::Result<()> {
    let first = demo.orders().first().context("no order was placed")?;
    let mail = all
        .iter()
        .find(|mail| mail.text.contains(&first.id.to_string()))
        .context("the first order's mail was not found")?;
    for name in ["To", "Subject", "Message-ID"] {
        let value = mail.header(name).unwrap_or_default();
        explain(&format!("│ {name}: {value}"));
    }
    explain("│");
    let (_, body) = mail.text.split_once("\r\n\r\n").unwrap_or_default();
    body.trim_end()
        .lines()
        .for_each(|line| explain(&format!("│ {line}")));
    Ok(())
}

/// The receipts of an order. A decline or a refund has its own mail.
fn count(all: &[Mail], order: uuid::Uuid) -> usize {
    let subject = format!("Your receipt for order {order}");
    let is_receipt = |mail: &&Mail| mail.header("Subject") == Some(&*subject);
    all.iter().filter(is_receipt).count()
}
