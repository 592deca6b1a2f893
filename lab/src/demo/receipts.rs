//! Chapter: every customer who paid has a mail, and one only.

use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::time::Instant;

use super::story::{Story, say};
use testkit::smtp_sink::{Mail, mails};

const MAILED_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);

pub(super) async fn tell(story: &mut Story<'_>) -> anyhow::Result<()> {
    story.chapter("The receipts");
    story.wait_until_all_ended().await?;
    let deadline = Instant::now() + MAILED_WITHIN;
    let all = loop {
        let all = mails(&story.system.endpoints().mails_dir)?;
        let missing = story.orders().iter().find(|told| count(&all, told.id) == 0);
        match missing {
            None => break all,
            Some(told) => ensure!(Instant::now() < deadline, "no mail for {}", told.id),
        }
        tokio::time::sleep(POLL).await;
    };
    for told in story.orders() {
        let mails = count(&all, told.id);
        ensure!(mails == 1, "{mails} mails for order {}", told.id);
    }
    let first = story.orders().first().context("no order was placed")?;
    let mail = all
        .iter()
        .find(|mail| mail.text.contains(&first.id.to_string()))
        .context("the first order's mail is gone")?;
    for name in ["To", "Subject", "Message-ID"] {
        say(&format!(
            "{name}: {}",
            mail.header(name).unwrap_or_default()
        ));
    }
    let (_, body) = mail.text.split_once("\r\n\r\n").unwrap_or_default();
    body.trim_end()
        .lines()
        .for_each(|line| say(&format!("│ {line}")));
    say(&format!(
        "{} orders, {0} mails: one for each, though payment died and everybody retried.",
        story.orders().len()
    ));
    Ok(())
}

fn count(all: &[Mail], order: uuid::Uuid) -> usize {
    let order = order.to_string();
    all.iter().filter(|mail| mail.text.contains(&order)).count()
}
