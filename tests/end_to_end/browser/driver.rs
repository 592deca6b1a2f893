//! A headless Chromium, driven over WebDriver.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use fantoccini::actions::{InputSource as _, KeyAction, KeyActions};
use fantoccini::key::Key;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use reqwest::{Method, Url};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::process::{Process, Spec};
use tokio::time::Instant;

/// Long enough for a busy machine. Only a failing test waits this long.
const WAIT_MAX: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(50);
const STOP_GRACE: Duration = Duration::from_secs(5);
/// What the driver prints before its port.
const STARTED: &str = "started successfully on port ";
/// Headless, in a fresh profile, and silent: Chromium sends nothing to its makers.
const ARGUMENTS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-quic",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
];

/// One browser with one page. End it with [`Browser::close`].
pub(crate) struct Browser {
    client: Client,
    driver: Process,
    /// The profile, and the driver's log.
    _files: TempDir,
}

impl Browser {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let files = TempDir::new()?;
        let log = files.path().join("chromedriver.log");
        let spec = Spec::new("chromedriver", &log).args(["--port=0"]);
        let driver = Process::spawn(&spec, &[])
            .context("install chromium and chromium-driver, as scripts/test.sh does")?;
        let port = port(&log).await?;
        let mut arguments = ARGUMENTS.map(str::to_owned).to_vec();
        arguments.push(format!(
            "--user-data-dir={}",
            files.path().join("profile").display()
        ));
        let capabilities = json!({
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(serde_json::from_value(capabilities)?)
            .connect(&format!("http://127.0.0.1:{port}"))
            .await
            .context("Chromium did not start")?;
        let browser = Self {
            client,
            driver,
            _files: files,
        };
        browser.resize(1280, 900).await?;
        Ok(browser)
    }

    /// Opens a URL, also if only its fragment differs from the current one.
    pub(crate) async fn open(&self, url: &str) -> anyhow::Result<()> {
        self.client.goto("about:blank").await?;
        Ok(self.client.goto(url).await?)
    }

    /// The value of a JavaScript expression.
    pub(crate) async fn eval(&self, expression: &str) -> anyhow::Result<Value> {
        let script = format!("return ({expression});");
        let value = self.client.execute(&script, Vec::new()).await;
        value.with_context(|| format!("in the page: {expression}"))
    }

    /// Runs a script; `return` gives its value.
    pub(crate) async fn run(&self, script: &str) -> anyhow::Result<Value> {
        Ok(self.client.execute(script, Vec::new()).await?)
    }

    /// Polls until the expression is truthy, and returns its value.
    pub(crate) async fn wait_for(&self, expression: &str) -> anyhow::Result<Value> {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let value = self.eval(expression).await?;
            let is_truthy = match &value {
                Value::Null => false,
                Value::Bool(it) => *it,
                Value::String(text) => !text.is_empty(),
                Value::Number(number) => number.as_f64() != Some(0.0),
                Value::Array(_) | Value::Object(_) => true,
            };
            if is_truthy {
                return Ok(value);
            }
            if Instant::now() > deadline {
                let page = self.eval("document.body.innerText").await?;
                bail!("the page never showed {expression}; it shows:\n{page}");
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until the element contains the text, and returns its whole text.
    pub(crate) async fn wait_for_text(&self, css: &str, text: &str) -> anyhow::Result<String> {
        let (css, text) = (json!(css), json!(text));
        let shown = format!("document.querySelector({css})?.textContent");
        let value = self
            .wait_for(&format!("{shown}?.includes({text}) && {shown}"))
            .await?;
        Ok(value.as_str().unwrap_or_default().to_owned())
    }

    /// Clicks as a person does: the element must be visible and not covered.
    pub(crate) async fn click(&self, css: &str) -> anyhow::Result<()> {
        let found = self.client.wait().at_most(WAIT_MAX);
        let element = found.for_element(Locator::Css(css)).await;
        let element = element.with_context(|| format!("the page has no {css}"))?;
        // The driver scrolls only as far as it must, and that can be below the sticky proof.
        let css_text = json!(css);
        let scroll =
            format!("document.querySelector({css_text}).scrollIntoView({{ block: 'center' }})");
        self.run(&scroll).await?;
        element
            .click()
            .await
            .with_context(|| format!("cannot click {css}"))
    }

    /// Types into a field, as it is.
    pub(crate) async fn type_into(&self, css: &str, text: &str) -> anyhow::Result<()> {
        let field = self.client.find(Locator::Css(css)).await?;
        Ok(field.send_keys(text).await?)
    }

    pub(crate) async fn press(&self, key: Key) -> anyhow::Result<()> {
        let value = char::from(key);
        let keys = KeyActions::new("keyboard".to_owned())
            .then(KeyAction::Down { value })
            .then(KeyAction::Up { value });
        Ok(self.client.perform_actions(keys).await?)
    }

    /// Sets the size of the page, below the smallest window too.
    pub(crate) async fn resize(&self, width: u32, height: u32) -> anyhow::Result<()> {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", size)
            .await?;
        Ok(())
    }

    /// What the system prefers: `light` or `dark`, and whether it wants less motion.
    pub(crate) async fn prefer(&self, scheme: &str, reduced_motion: bool) -> anyhow::Result<()> {
        let motion = if reduced_motion {
            "reduce"
        } else {
            "no-preference"
        };
        let features = json!([
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": motion },
        ]);
        self.devtools(
            "Emulation.setEmulatedMedia",
            json!({ "features": features }),
        )
        .await?;
        Ok(())
    }

    async fn devtools(&self, command: &str, parameters: Value) -> anyhow::Result<Value> {
        let body = json!({ "cmd": command, "params": parameters });
        let path = "goog/cdp/execute";
        Ok(self.client.issue_cmd(ChromeCommand { path, body }).await?)
    }

    /// A picture of what the window shows, as PNG.
    pub(crate) async fn screenshot(&self) -> anyhow::Result<Vec<u8>> {
        Ok(self.client.screenshot().await?)
    }

    /// Fails if the page or the browser reported an error since the last call.
    pub(crate) async fn expect_no_errors(&self) -> anyhow::Result<()> {
        let body = json!({ "type": "browser" });
        let log = self
            .client
            .issue_cmd(ChromeCommand {
                path: "se/log",
                body,
            })
            .await?;
        let errors: Vec<&Value> = log
            .as_array()
            .context("the log is no list")?
            .iter()
            .collect();
        ensure!(errors.is_empty(), "the browser's console has {errors:#?}");
        Ok(())
    }

    pub(crate) async fn close(self) -> anyhow::Result<()> {
        self.client.close().await?;
        self.driver.stop(STOP_GRACE).await;
        Ok(())
    }
}

/// The port that the driver chose.
async fn port(log: &Path) -> anyhow::Result<u16> {
    let deadline = Instant::now() + WAIT_MAX;
    loop {
        let text = tokio::fs::read_to_string(log).await.unwrap_or_default();
        // The sentence ends with a full stop: without it the number may be incomplete.
        let rest = text.split_once(STARTED).map(|(_, rest)| rest);
        if let Some((port, _)) = rest.and_then(|rest| rest.split_once('.')) {
            return Ok(port.parse()?);
        }
        ensure!(
            Instant::now() < deadline,
            "chromedriver did not start: {text}"
        );
        tokio::time::sleep(POLL).await;
    }
}

/// A command of chromedriver that is not in the standard.
#[derive(Debug)]
struct ChromeCommand {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for ChromeCommand {
    fn endpoint(
        &self,
        base: &Url,
        session: Option<&str>,
    ) -> Result<Url, <Url as std::str::FromStr>::Err> {
        base.join(&format!(
            "session/{}/{}",
            session.unwrap_or_default(),
            self.path
        ))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}
