//! The page narrow, dark, by keyboard, without a token, and without a connection.

use anyhow::ensure;
use fantoccini::key::Key;
use serde_json::Value;
use testkit::fault_proxy::FaultProxy;

use super::stage::Stage;
use crate::harness::options;

const CONTRAST: &str = include_str!("contrast.js");
/// Elements that reach beyond the right edge of the window, and are not in a box that scrolls.
const TOO_WIDE: &str =
    "[...document.querySelectorAll('body *')].filter((it) => it.checkVisibility()
    && !it.closest('.scroll, .scroll-x, .visually-hidden, .skip')
    && it.getBoundingClientRect().right > innerWidth + 1).map((it) => it.outerHTML.slice(0, 80))";
/// What has the focus, and whether a person can see that.
const FOCUSED: &str = "(() => {
    const it = document.activeElement;
    const isVisible = getComputedStyle(it).outlineStyle !== 'none' && it.checkVisibility();
    return [it.id || it.textContent.trim(), isVisible];
})()";
/// More than the page has.
const TABS_MAX: usize = 200;

#[tokio::test]
async fn page_is_narrow_dark_keyboard_and_read_only() -> anyhow::Result<()> {
    let stage = Stage::start(options()).await?;
    let result = async {
        expect_read_only(&stage).await?;
        stage.open().await?;
        expect_tab_order(&stage).await?;
        stage.place_and_ship("twice").await?;
        expect_tour_presses_buttons(&stage).await?;
        expect_both_themes(&stage).await?;
        expect_narrow(&stage).await?;
        stage.browser.expect_no_errors().await?;
        expect_reconnect(&stage).await
    };
    let result = result.await;
    stage.end(result).await
}

/// Without a token the page shows everything, says why its buttons are off, and takes a token.
async fn expect_read_only(stage: &Stage) -> anyhow::Result<()> {
    let browser = &stage.browser;
    browser.open(&stage.url()).await?;
    browser.wait_for_text("#connection", "Live").await?;
    browser
        .wait_for("document.querySelector('#read-only').checkVisibility()")
        .await?;
    let disabled = "document.querySelectorAll('[data-action]').length > 10
        && [...document.querySelectorAll('[data-action]')].every((it) => it.disabled)";
    browser.wait_for(disabled).await?;
    let link = stage.console.link();
    let token = link.rsplit('=').next().unwrap_or_default();
    browser.type_into("#token", token).await?;
    browser.click("#read-only button").await?;
    browser
        .wait_for("!document.querySelector('#kill-button').disabled")
        .await?;
    browser.run("sessionStorage.clear()").await?;
    Ok(())
}

/// From the skip link through every control in the order of the page, with a visible focus.
async fn expect_tab_order(stage: &Stage) -> anyhow::Result<()> {
    let browser = &stage.browser;
    let mut seen: Vec<String> = Vec::new();
    for _ in 0..TABS_MAX {
        browser.press(Key::Tab).await?;
        let focused = browser.eval(FOCUSED).await?;
        let name = focused[0].as_str().unwrap_or_default().to_owned();
        if seen.first() == Some(&name) || focused[0] == Value::Null {
            break;
        }
        ensure!(focused[1] == true, "no visible focus on {name}");
        seen.push(name);
        if seen.last().is_some_and(|name| name == "orders-list") {
            break;
        }
    }
    let expected = [
        "Skip to content",
        "tour-start",
        "theme",
        "reset",
        "kill-button",
        "place-method",
        "place-sku",
        "place-quantity",
        "Place once",
        "tab-processes",
        "query",
        "orders-list",
    ];
    let places: Vec<_> = expected
        .iter()
        .map(|name| seen.iter().position(|it| it == name))
        .collect();
    ensure!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "the order is {seen:?}"
    );
    // Arrow keys move between tabs.
    browser
        .run("document.querySelector('#tab-processes').focus()")
        .await?;
    browser.press(Key::Right).await?;
    browser
        .wait_for("document.querySelector('#panel-points').checkVisibility()")
        .await?;
    Ok(())
}

/// Each of the six steps places an order with the page's own buttons.
async fn expect_tour_presses_buttons(stage: &Stage) -> anyhow::Result<()> {
    let browser = &stage.browser;
    let rows = "document.querySelectorAll('#orders tbody tr').length";
    let before = browser.eval(rows).await?.as_u64().unwrap_or_default();
    browser.click("#tour-start").await?;
    for step in 1..=6 {
        let progress = format!("Step {step} of 6");
        browser.wait_for_text(".tour-progress", &progress).await?;
        let text = "document.querySelector('#tour-text').textContent";
        let task = browser.eval(text).await?;
        browser.click("#tour .primary").await?;
        browser.wait_for(&format!("{text} !== {task}")).await?;
        let placed = format!("{rows} === {}", before + step);
        browser.wait_for(&placed).await?;
        browser.click("#tour-next").await?;
    }
    browser
        .wait_for("document.querySelector('#tour').hidden")
        .await?;
    browser.wait_for(&statuses("refunded", 1)).await?;
    browser.wait_for(&statuses("shipped", before + 4)).await?;
    let faults = stage.system.faults("end the slow charge")?;
    let all_shipped = statuses("shipped", before + 5);
    testkit::eventually("the slow order ships", async || {
        faults.clear().await.is_ok()
            && browser
                .eval(&all_shipped)
                .await
                .is_ok_and(|shown| shown == true)
    })
    .await;
    Ok(())
}

/// Whether the list shows so many orders with this status.
fn statuses(status: &str, count: u64) -> String {
    format!(
        "[...document.querySelectorAll('#orders .order-status')]
         .filter((it) => it.textContent === '{status}').length === {count}"
    )
}

async fn expect_both_themes(stage: &Stage) -> anyhow::Result<()> {
    let browser = &stage.browser;
    let page = "getComputedStyle(document.body).backgroundColor";
    browser.prefer("light", true).await?;
    let light = browser.eval(page).await?;
    expect_contrast(stage, "light").await?;
    browser.prefer("dark", true).await?;
    let dark = browser.eval(page).await?;
    ensure!(light != dark, "both are {light}");
    expect_contrast(stage, "dark").await?;
    // The button overrides the system.
    browser.click("#theme").await?;
    browser.wait_for(&format!("{page} === {light}")).await?;
    browser.click("#theme").await?;
    Ok(())
}

async fn expect_contrast(stage: &Stage, theme: &str) -> anyhow::Result<()> {
    let result = stage.browser.run(CONTRAST).await?;
    ensure!(
        result["checked"].as_u64() > Some(80),
        "too little text: {result}"
    );
    let findings = result["findings"].as_array().map_or(0, Vec::len);
    ensure!(findings == 0, "too little contrast, {theme}: {result:#}");
    Ok(())
}

/// 400 pixels are enough, with every panel, the tour and a timeline open.
async fn expect_narrow(stage: &Stage) -> anyhow::Result<()> {
    let browser = &stage.browser;
    browser.resize(400, 800).await?;
    for tab in ["points", "provider", "network", "processes"] {
        browser.click(&format!("#tab-{tab}")).await?;
        expect_no_overflow(stage, tab).await?;
    }
    browser.click("#tour-start").await?;
    expect_no_overflow(stage, "tour").await?;
    browser.click("#tour-next").await?;
    browser
        .run("document.querySelector('#tour .quiet').click()")
        .await?;
    browser
        .run("document.querySelector('#orders tbody a').click()")
        .await?;
    browser
        .wait_for("document.querySelector('#timeline .steps') !== null")
        .await?;
    expect_no_overflow(stage, "timeline").await?;
    expect_contrast(stage, "dark and narrow").await?;
    browser.press(Key::Escape).await?;
    browser
        .wait_for("document.querySelector('#timeline').hidden")
        .await?;
    browser.resize(1280, 900).await
}

async fn expect_no_overflow(stage: &Stage, what: &str) -> anyhow::Result<()> {
    let widths = stage
        .browser
        .eval("document.documentElement.scrollWidth <= innerWidth")
        .await?;
    let wide = stage.browser.eval(TOO_WIDE).await?;
    let is_empty = wide.as_array().is_some_and(Vec::is_empty);
    ensure!(widths == true && is_empty, "{what} is too wide: {wide:#}");
    Ok(())
}

/// A stream that breaks comes back automatically, and the page says both.
async fn expect_reconnect(stage: &Stage) -> anyhow::Result<()> {
    let proxy = FaultProxy::to(&stage.url()).await?;
    let browser = &stage.browser;
    browser.open(&proxy.url).await?;
    browser.wait_for_text("#connection", "Live").await?;
    proxy.close();
    browser.wait_for_text("#connection", "reconnecting").await?;
    proxy.open();
    browser.wait_for_text("#connection", "Live again").await?;
    Ok(())
}
