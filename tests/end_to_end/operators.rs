//! Operators have their own listener: no operator route is on a customers' port, and none works without
//! a token and a reason.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use endpoints::operator::{DEMO_NAME, DEMO_TOKEN};
use endpoints::{Service, client};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use testkit::binaries::Binaries;
use testkit::outages::table::routes_in_source;
use tokio::process::Command;

use crate::harness::{Harness, REASON, SETTLE_TIMEOUT, options};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const CONSUMERS: [Service; 4] = [
    Service::Order,
    Service::Payment,
    Service::Fulfilment,
    Service::Receipt,
];
const PUBLISHERS: [Service; 3] = [Service::Order, Service::Payment, Service::Fulfilment];

/// Method and path of every operator route of every service. A router does not list its routes, so
/// they are read from all source files: a new route cannot be forgotten here.
fn operator_routes() -> anyhow::Result<BTreeMap<String, Vec<Service>>> {
    let mut routes = BTreeMap::new();
    for group in ["services", "shared"] {
        for entry in std::fs::read_dir(Path::new(ROOT).join(group))? {
            let folder = entry?;
            let name = folder.file_name().into_string().unwrap_or_default();
            let owners = owners(&name);
            for path in sources(&folder.path().join("src"))? {
                let source = std::fs::read_to_string(path)?;
                let source = source.split("#[cfg(test)]").next().unwrap_or_default();
                // Conditional code comes with the feature that these services have.
                let source = source.replace("#[cfg(feature", "#[with(feature");
                let found = routes_in_source(&source).into_iter();
                for route in found.filter(|it| it.contains(" /admin")) {
                    ensure!(
                        !owners.is_empty(),
                        "say which services have {route} of {name}"
                    );
                    routes.insert(format!("{route} {name}"), owners.clone());
                }
            }
        }
    }
    Ok(routes)
}

/// The services that have the routes of a folder in `services` or `shared`.
fn owners(folder: &str) -> Vec<Service> {
    match folder {
        "inbox" => CONSUMERS.to_vec(),
        "outbox" => PUBLISHERS.to_vec(),
        "operators" => Service::ALL.to_vec(),
        _ => Service::ALL
            .into_iter()
            .filter(|it| it.name() == folder)
            .collect(),
    }
}

/// The Rust files in a folder and its subfolders.
fn sources(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => found.extend(sources(&path)?),
            false if path.extension().is_some_and(|it| it == "rs") => found.push(path),
            false => {}
        }
    }
    Ok(found)
}

/// Status and problem code of the response.
async fn send(request: RequestBuilder) -> anyhow::Result<(u16, String)> {
    let response = request.send().await?;
    let status = response.status().as_u16();
    let body: Value = serde_json::from_str(&response.text().await?).unwrap_or_default();
    let code = body["code"].as_str().unwrap_or_default();
    Ok((status, code.to_owned()))
}

#[tokio::test]
async fn operator_routes_are_only_on_the_operator_listener() -> anyhow::Result<()> {
    let routes = operator_routes()?;
    ensure!(routes.len() >= 18, "routes are missing: {routes:#?}");
    let harness = Harness::start(options()).await?;
    let http = client::http(SETTLE_TIMEOUT)?;
    for (route, services) in &routes {
        let mut words = route.split(' ');
        let method: Method = words.next().context("no method")?.parse()?;
        let path = words.next().context("no path")?;
        // Ids that do not exist, so that no request changes anything.
        let path = path.replace("{order_id}", "019b0000-0000-7000-8000-000000000000");
        let path = path.replace("{id}", "987654321");
        let path = path
            .replace("{attempt}", "1")
            .replace("{charge_id}", "none");
        for service in services {
            let customers = format!("{}{path}", harness.system.url(*service));
            let operators = format!("{}{path}", harness.system.operator_url(*service));
            let to = |url: &str| http.request(method.clone(), url);
            let with_token = |url: &str| to(url).bearer_auth(DEMO_TOKEN);
            let complete = with_token(&customers).header("x-reason", REASON);
            for request in [to(&customers), complete] {
                let (status, _) = send(request).await?;
                ensure!(
                    status == 404,
                    "{service}: {method} {path} is for customers: {status}"
                );
            }
            let anonymous = send(to(&operators).header("x-reason", REASON)).await?;
            ensure!(
                anonymous == (401, "unknown_operator".into()),
                "{route}: {anonymous:?}"
            );
            let (status, code) = send(with_token(&operators)).await?;
            match method.is_safe() {
                // 400: a list that needs a filter.
                true => ensure!(
                    [200, 400, 404].contains(&status),
                    "{service}: {route}: {status}"
                ),
                false => ensure!(
                    code == "reason_required",
                    "{service}: {route}: {status} {code}"
                ),
            }
            // No route has this method, so the status shows that the path exists.
            let patch = http.patch(&operators).bearer_auth(DEMO_TOKEN);
            let (status, _) = send(patch.header("x-reason", REASON)).await?;
            ensure!(
                status == 405,
                "{service} has no operator route {path}: {status}"
            );
        }
    }
    for service in Service::ALL {
        let log = harness
            .operate(service, Method::GET, "/admin/audit", None)
            .await?;
        ensure!(log["data"] == json!([]), "{service}: {log}");
    }
    harness.stop().await
}

/// Runs `chargeonce` on the system; returns whether it succeeded, and what it printed.
pub(crate) async fn chargeonce(
    harness: &Harness,
    token: Option<&str>,
    arguments: &[&str],
) -> anyhow::Result<(bool, String)> {
    let mut command = Command::new(Binaries::locate(None)?.path("chargeonce")?);
    command
        .args(arguments)
        .env("CHARGEONCE_STATE_DIR", harness.system.state_dir())
        .env_remove("CHARGEONCE_OPERATOR_TOKEN");
    if let Some(token) = token {
        command.env("CHARGEONCE_OPERATOR_TOKEN", token);
    }
    let output = command.kill_on_drop(true).output().await?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok((output.status.success(), text))
}

#[tokio::test]
async fn command_needs_a_token_and_a_reason() -> anyhow::Result<()> {
    let harness = Harness::start(options()).await?;
    let (done, text) = chargeonce(&harness, None, &["reconcile"]).await?;
    ensure!(!done && text.contains("--reason"), "{text}");
    let change = ["reconcile", "--reason", "provider outage"];
    let (done, text) = chargeonce(&harness, Some("wrong"), &change).await?;
    ensure!(!done && text.contains("OPERATOR_TOKENS"), "{text}");
    ensure!(!text.contains("wrong"), "{text}");
    // Without a token of its own, the command uses the lab's.
    let (done, text) = chargeonce(&harness, None, &change).await?;
    ensure!(done, "{text}");
    let (done, text) = chargeonce(&harness, Some(DEMO_TOKEN), &["audit"]).await?;
    ensure!(done && text.lines().count() == 1, "{text}");
    for fact in ["payment", DEMO_NAME, "reconcile", "provider outage"] {
        ensure!(text.contains(fact), "{fact}: {text}");
    }
    harness.stop().await
}

/// What the command prints must be what the services accept.
#[tokio::test]
async fn new_operator_token_is_accepted() -> anyhow::Result<()> {
    let command = Binaries::locate(None)?.path("chargeonce")?;
    let output = Command::new(command)
        .args(["operator-token", "ann"])
        .output();
    let text = String::from_utf8(output.await?.stdout)?;
    let mut indented = text.lines().filter_map(|line| line.strip_prefix("  "));
    let (token, entry) = indented.next().zip(indented.next()).context("no token")?;
    let mut options = options();
    let tokens = ("OPERATOR_TOKENS".to_owned(), entry.to_owned());
    options.env.payment.push(tokens);
    let harness = Harness::start(options).await?;
    let url = harness.system.operator_url(Service::Payment);
    let list = ["redrive", "list", "--service", "payment", "--url", url];
    let (done, text) = chargeonce(&harness, Some(token), &list).await?;
    ensure!(done, "{text}");
    let (done, text) = chargeonce(&harness, Some(DEMO_TOKEN), &list).await?;
    ensure!(!done, "the demo token still works: {text}");
    harness.stop().await
}

#[tokio::test]
async fn crash_points_are_armed_with_an_audit_row() -> anyhow::Result<()> {
    let harness = Harness::start(options()).await?;
    for service in CONSUMERS {
        harness.arm(service, "never.reached").await?;
        let path = "/admin/crash-points";
        harness.operate(service, Method::DELETE, path, None).await?;
        let log = harness
            .operate(service, Method::GET, "/admin/audit", None)
            .await?;
        let facts = |row: &Value| {
            ["operator", "action", "subject", "reason"].map(|field| row[field].clone())
        };
        let rows: Vec<_> = log["data"]
            .as_array()
            .context("no rows")?
            .iter()
            .map(facts)
            .collect();
        let expected = [
            [DEMO_NAME, "crash_points.disarm", "all", REASON],
            [DEMO_NAME, "crash_points.arm", "never.reached", REASON],
        ];
        ensure!(
            rows == expected.map(|row| row.map(Value::from)),
            "{service}: {log:#}"
        );
    }
    harness.stop().await
}
