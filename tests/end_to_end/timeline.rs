//! `chargeonce timeline`: one order's timeline over all services, after a crash too.

use anyhow::{Context as _, ensure};
use endpoints::Service;
use endpoints::client::{new_key, order_body};
use serde_json::Value;
use testkit::binaries::Binaries;
use tokio::process::Command;
use uuid::Uuid;

use crate::harness::{Harness, options};
use crate::operators::chargeonce;

async fn timeline(harness: &Harness, order: Uuid) -> anyhow::Result<Value> {
    let order = order.to_string();
    let (done, text) = chargeonce(harness, None, &["timeline", &order, "--json"]).await?;
    ensure!(done, "{text}");
    serde_json::from_str(&text).context(text)
}

fn steps<'a>(timeline: &'a Value, service: &str) -> Vec<&'a str> {
    let steps = timeline["steps"].as_array().into_iter().flatten();
    let of_service = steps.filter(|step| step["service"] == service);
    of_service
        .filter_map(|step| step["what"].as_str())
        .collect()
}

#[tokio::test]
async fn order_of_a_killed_payment_shows_two_tries_one_charge() -> anyhow::Result<()> {
    let harness = Harness::start(options()).await?;
    harness.arm(Service::Payment, "charge.answered").await?;
    let key = new_key("timeline");
    let order = harness.place_with(&key, &order_body(2)).await?;
    harness.expect_end(order, "shipped").await?;

    let timeline = timeline(&harness, order).await?;
    ensure!(timeline["charges_in_books"] == 1, "{timeline:#}");
    ensure!(
        timeline["key"] == *key && timeline["status"] == "shipped",
        "{timeline:#}"
    );
    ensure!(timeline["missing"] == serde_json::json!([]), "{timeline:#}");
    let all = timeline["steps"].as_array().context("no steps")?;
    let captured = all.iter().find(|it| it["what"] == "attempt 1 is captured");
    let captured = captured.context("not captured")?;
    // One before the kill and one after it; more if a call timed out.
    let tries = captured["facts"]["tries"].as_str();
    let tries: u32 = tries.unwrap_or_default().parse()?;
    ensure!(tries >= 2, "{captured:#}");
    let charges = all.iter().filter(|it| it["what"] == "charge is captured");
    ensure!(charges.count() == 1, "{timeline:#}");
    for (service, expected) in [
        (
            "order",
            &[
                "order placed",
                "event order.placed published",
                "order is shipped",
            ][..],
        ),
        (
            "payment",
            &[
                "attempt 1 stored",
                "attempt 1: key sent again",
                "order.placed processed",
            ],
        ),
        ("psp", &["response 201 to charge stored"]),
        (
            "fulfilment",
            &["shipment is shipped", "payment.captured processed"],
        ),
        (
            "receipt",
            &["mail (receipt) logged", "mail (receipt) is sent"],
        ),
    ] {
        let found = steps(&timeline, service);
        let missing: Vec<_> = expected.iter().filter(|it| !found.contains(it)).collect();
        ensure!(missing.is_empty(), "{service}: {missing:?} of {found:?}");
    }
    let times: Vec<&str> = all.iter().filter_map(|it| it["at"].as_str()).collect();
    ensure!(times.is_sorted(), "{times:?}");

    let (done, text) = chargeonce(&harness, None, &["timeline", &order.to_string()]).await?;
    ensure!(
        done && text.contains("books        charges: 1, refunds: 0"),
        "{text}"
    );
    ensure!(text.contains("$ charge is captured"), "{text}");
    harness.stop().await
}

#[tokio::test]
async fn service_that_is_down_is_missing_from_the_timeline() -> anyhow::Result<()> {
    let harness = Harness::start(options()).await?;
    let order = harness.place().await?;
    harness.expect_end(order, "shipped").await?;
    let mut system = harness.system.endpoints();
    // Nothing listens there.
    system.operator_urls.psp = vec!["http://127.0.0.1:1".to_owned()];
    let run = async |order: Uuid| {
        let mut command = Command::new(Binaries::locate(None)?.path("chargeonce")?);
        command
            .args(["timeline", &order.to_string()])
            .env("CHARGEONCE_SYSTEM", serde_json::to_string(&system)?)
            .env_remove("CHARGEONCE_OPERATOR_TOKEN");
        let output = command.kill_on_drop(true).output().await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        anyhow::Ok((output.status.success(), text))
    };
    let (done, text) = run(order).await?;
    ensure!(done && text.contains("psp did not respond"), "{text}");
    ensure!(text.contains("shipment is shipped"), "{text}");
    ensure!(text.contains("charges not known"), "{text}");
    let (done, text) = run(Uuid::new_v4()).await?;
    ensure!(!done, "an order that does not exist: {text}");
    harness.stop().await
}
