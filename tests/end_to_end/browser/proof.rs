//! A second charge turns the page red, and its refund turns it amber.

use uuid::Uuid;

use super::stage::Stage;
use crate::harness::options;

#[tokio::test]
async fn second_charge_is_red_and_its_refund_amber() -> anyhow::Result<()> {
    let stage = Stage::start(options()).await?;
    let result = async {
        stage.open().await?;
        let order = stage.place_and_ship("once").await?;
        stage.browser.wait_for(&finding("holds")).await?;
        let charge = stage.charge_again(order).await?;
        expect_red(&stage, order).await?;
        stage.refund(charge).await?;
        expect_amber(&stage).await?;
        stage.browser.expect_no_errors().await
    };
    let result = result.await;
    stage.end(result).await
}

fn finding(name: &str) -> String {
    format!("document.querySelector('#proof').dataset.finding === '{name}'")
}

async fn expect_red(stage: &Stage, order: Uuid) -> anyhow::Result<()> {
    let browser = &stage.browser;
    browser.wait_for(&finding("violated")).await?;
    browser.wait_for_text("#proof-more", "1").await?;
    browser
        .wait_for_text("#problems", &order.to_string())
        .await?;
    browser
        .wait_for("document.querySelector('#proof').getBoundingClientRect().top >= 0")
        .await?;
    browser.click("#problems a").await?;
    browser
        .wait_for_text("#timeline .timeline-id", &order.to_string())
        .await?;
    browser
        .wait_for_text(
            "#timeline .timeline-count",
            "2charges in the provider's books",
        )
        .await?;
    browser.click("#timeline-close").await
}

async fn expect_amber(stage: &Stage) -> anyhow::Result<()> {
    stage.browser.wait_for(&finding("repaired")).await?;
    stage.browser.wait_for_text("#problems", "Repaired").await?;
    // The strip stays on screen at the end of the page too.
    stage
        .browser
        .run("scrollTo(0, document.body.scrollHeight)")
        .await?;
    stage
        .browser
        .wait_for("document.querySelector('#proof').getBoundingClientRect().top === 0")
        .await?;
    Ok(())
}
