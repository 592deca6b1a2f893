//! Orders and a kill, as a person sees them on the page.

use anyhow::ensure;
use serde_json::Value;
use testkit::system::{Postgres, SystemOptions};

use super::stage::Stage;
use crate::harness::options;

/// Records every state that the box of payment shows.
const WATCH_PAYMENT: &str = "
    const box = document.querySelector('.node-payment');
    window.seen = [box.dataset.state];
    new MutationObserver(() => window.seen.push(box.dataset.state)).observe(box, { attributeFilter: ['data-state'] });";
const NAME_FIRST_201: &str = "
    const rows = [...document.querySelectorAll('#place-responses tbody tr')];
    rows.find((it) => it.querySelector('.status')?.textContent === '201').querySelector('button').id = 'body-of-201';";
/// The status of every response, and whether it is a replay.
const RESPONSES: &str = "
    [...document.querySelectorAll('#place-responses tbody tr:not(.body-row)')].map((row) =>
        row.querySelector('.status').textContent + (row.querySelector('.tag') ? ' replay' : ''))";
const PID: &str = "document.querySelector('#break tr[data-key=payment] .pid').textContent";
const LAST_STEP_DONE: &str =
    "document.querySelector('#kill-steps li:last-child').dataset.state === 'done'";

#[tokio::test]
async fn page_shows_orders_and_survived_kill() -> anyhow::Result<()> {
    // The console drops databases only on a server that the lab started.
    let postgres = Postgres::Private;
    let stage = Stage::start(SystemOptions {
        postgres,
        ..options()
    })
    .await?;
    let result = async {
        stage.open().await?;
        expect_token_moved(&stage).await?;
        expect_one_order_shipped(&stage).await?;
        expect_twenty_requests_make_one_order(&stage).await?;
        expect_kill_is_seen(&stage).await?;
        expect_whole_timeline(&stage).await?;
        expect_reset_deletes(&stage).await?;
        stage.browser.expect_no_errors().await
    };
    let result = result.await;
    stage.end(result).await
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// The address can be shared: the token is not in it any more.
async fn expect_token_moved(stage: &Stage) -> anyhow::Result<()> {
    let url = stage.browser.eval("location.href").await?;
    ensure!(url == stage.url().as_str(), "the address is {url}");
    Ok(())
}

async fn expect_one_order_shipped(stage: &Stage) -> anyhow::Result<()> {
    let id = stage.place_and_ship("once").await?;
    ensure!(stage.charges(id).await? == 1);
    stage.browser.wait_for_text("#proof-accepted", "1").await?;
    stage
        .browser
        .wait_for("document.querySelector('#proof').dataset.finding === 'holds'")
        .await?;
    Ok(())
}

async fn expect_twenty_requests_make_one_order(stage: &Stage) -> anyhow::Result<()> {
    let id = stage.place_and_ship("twenty").await?;
    let browser = &stage.browser;
    let responses = browser.eval(RESPONSES).await?;
    let responses: Vec<&str> = strings(&responses).collect();
    let count = |wanted: &str| responses.iter().filter(|it| **it == wanted).count();
    // How many of the others get a 409 depends on timing.
    ensure!(
        count("201") == 1 && count("201 replay") + count("409") == 19,
        "the responses are {responses:?}"
    );
    let orders: i64 = sqlx::query_scalar("select count(*) from orders")
        .fetch_one(&stage.databases.order)
        .await?;
    ensure!(orders == 2, "{orders} orders after one and twenty requests");
    ensure!(stage.charges(id).await? == 1);
    // The page shows the body of each response on demand. Which request placed the order depends on timing.
    browser.run(NAME_FIRST_201).await?;
    browser.click("#body-of-201").await?;
    let body = "#place-responses .body-row:not([hidden]) pre";
    browser.wait_for_text(body, &id.to_string()).await?;
    Ok(())
}

async fn expect_kill_is_seen(stage: &Stage) -> anyhow::Result<()> {
    let browser = &stage.browser;
    browser.run(WATCH_PAYMENT).await?;
    let pid = browser.wait_for(PID).await?;
    browser.click("#kill-button").await?;
    browser.wait_for(LAST_STEP_DONE).await?;
    browser.wait_for_text("#kill-charges", "1").await?;
    browser.wait_for_text("#kill-result", "paid once").await?;
    let states = browser.eval("window.seen").await?;
    let states: Vec<&str> = strings(&states).collect();
    let died = states.iter().position(|state| *state == "dead");
    let returned = states.iter().rposition(|state| *state == "running");
    ensure!(
        died.is_some() && died < returned,
        "the box of payment showed {states:?}"
    );
    let new_pid = stage.system.pid("payment").unwrap_or_default();
    ensure!(
        pid != new_pid.to_string().as_str(),
        "payment was not killed"
    );
    browser.wait_for(&format!("{PID} === '{new_pid}'")).await?;
    let link = browser
        .eval("document.querySelector('#kill-steps a').title")
        .await?;
    let id = link.as_str().unwrap_or_default().parse()?;
    ensure!(stage.charges(id).await? == 1);
    Ok(())
}

/// The timeline of the order whose charge was interrupted: by its link, and by its address alone.
async fn expect_whole_timeline(stage: &Stage) -> anyhow::Result<()> {
    let browser = &stage.browser;
    browser.click("#kill-steps a").await?;
    for service in ["order", "payment", "psp", "fulfilment", "receipt"] {
        browser
            .wait_for(&format!(
                "document.querySelector('.waterfall li[data-service={service}]') !== null"
            ))
            .await?;
        browser
            .wait_for(&format!(
                "document.querySelector('.steps li[data-service={service}]') !== null"
            ))
            .await?;
    }
    browser
        .wait_for("document.querySelectorAll('.waterfall li[data-kind=wait]').length >= 3")
        .await?;
    browser
        .wait_for("document.querySelector('.steps li[data-severity=fault] .observed') !== null")
        .await?;
    browser
        .wait_for_text(".timeline-count", "1charge in the provider's books")
        .await?;
    let address = browser.eval("location.href").await?;
    browser.open(address.as_str().unwrap_or_default()).await?;
    browser
        .wait_for_text(".timeline-count", "1charge in the provider's books")
        .await?;
    browser.click("#timeline-close").await?;
    browser
        .wait_for("document.querySelector('#timeline').hidden")
        .await?;
    Ok(())
}

/// The button asks first, then deletes the data. The system still works after that.
async fn expect_reset_deletes(stage: &Stage) -> anyhow::Result<()> {
    let browser = &stage.browser;
    stage.open().await?;
    browser.click("#reset").await?;
    browser.click("#reset-dialog [value=cancel]").await?;
    let rows = "document.querySelectorAll('#orders tbody tr').length";
    browser.wait_for(&format!("{rows} === 3")).await?;
    browser.click("#reset").await?;
    browser.click("#reset-dialog [value=reset]").await?;
    browser.wait_for(&format!("{rows} === 0")).await?;
    browser.wait_for_text("#proof-accepted", "0").await?;
    browser.wait_for_text("#marks", "deleted").await?;
    stage.place_and_ship("once").await?;
    Ok(())
}
