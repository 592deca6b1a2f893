//! Docker's Engine API over its socket, for a console in a container that has the socket mounted.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use chrono::{DateTime, Utc};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::controls::{Action, Up, container, kind, rank};
use crate::state::Process;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a killed container stays dead, so that the page can show the death.
const RESTART_DELAY: Duration = Duration::from_secs(1);
/// Compose's own labels.
const PROJECT: &str = "com.docker.compose.project";
const SERVICE: &str = "com.docker.compose.service";
/// The suffix of the network between payment and the provider; the project's name comes before it.
const PROVIDER_NETWORK: &str = "_provider";
/// Containers of tools. The page does not offer to break them.
const TOOLS: [&str; 6] = [
    "lab",
    "console",
    "balancer",
    "prometheus",
    "grafana",
    "jaeger",
];

/// The containers of one compose project.
pub struct Docker {
    http: reqwest::Client,
    project: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Container {
    id: String,
    state: String,
    #[serde(default)]
    created: i64,
    labels: std::collections::HashMap<String, String>,
    #[serde(default)]
    network_settings: Option<Networks>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct Networks {
    #[serde(default)]
    networks: std::collections::HashMap<String, Value>,
}

impl Container {
    fn service(&self) -> &str {
        self.labels.get(SERVICE).map_or("", String::as_str)
    }
}

impl Docker {
    pub fn new(socket: &Path, project: &str) -> anyhow::Result<Self> {
        ensure!(
            socket.exists(),
            "there is no Docker socket at {}: mount it, or unset CONSOLE_DOCKER_SOCKET",
            socket.display()
        );
        let http = reqwest::Client::builder()
            .unix_socket(socket.to_owned())
            .timeout(REQUEST_TIMEOUT)
            .build()?;
        Ok(Self {
            http,
            project: project.to_owned(),
        })
    }

    pub(crate) async fn processes(&self, up: &Up) -> anyhow::Result<Vec<Process>> {
        let containers = self.containers().await?;
        let shown = containers.iter().filter(|it| {
            let service = it.service();
            !TOOLS.contains(&service) && !service.ends_with("-migrate") && service != "topic"
        });
        let mut all: Vec<Process> = shown.map(|it| process(it, up)).collect();
        all.sort_by_key(|process| rank(&process.name));
        Ok(all)
    }

    pub(crate) async fn act(&self, name: &str, action: Action) -> anyhow::Result<()> {
        let service = container(name);
        let all = self.containers().await?;
        let found = all.iter().find(|it| it.service() == service);
        let id = &found
            .with_context(|| format!("no container runs {service}"))?
            .id;
        match action {
            Action::Pause => self.post(&format!("/containers/{id}/pause"), None).await,
            Action::Resume => self.post(&format!("/containers/{id}/unpause"), None).await,
            Action::Kill => {
                self.post(&format!("/containers/{id}/kill"), None).await?;
                // After a kill over the API the restart policy does not apply.
                tokio::time::sleep(RESTART_DELAY).await;
                self.post(&format!("/containers/{id}/start"), None).await
            }
        }
    }

    /// Disconnects payment from the provider's network, or connects it again.
    pub(crate) async fn cut_provider(&self, on: bool) -> anyhow::Result<()> {
        let network = format!("{}{PROVIDER_NETWORK}", self.project);
        let containers = self.containers().await?;
        for payment in containers.iter().filter(|it| it.service() == "payment") {
            let networks = payment.network_settings.as_ref();
            let is_connected = networks.is_some_and(|it| it.networks.contains_key(&network));
            let (verb, body) = match (on, is_connected) {
                (true, true) => ("disconnect", json!({"Container": payment.id})),
                (false, false) => (
                    "connect",
                    json!({"Container": payment.id, "EndpointConfig": {"Aliases": ["payment"]}}),
                ),
                _ => continue,
            };
            let path = format!("/networks/{network}/{verb}");
            self.post(&path, Some(&body)).await?;
        }
        Ok(())
    }

    async fn containers(&self) -> anyhow::Result<Vec<Container>> {
        let filters = json!({"label": [format!("{PROJECT}={}", self.project)]}).to_string();
        let response = self
            .http
            .get("http://docker/containers/json")
            .query(&[("all", "true"), ("filters", &filters)])
            .send()
            .await
            .and_then(reqwest::Response::error_for_status)
            .context("listing containers")?;
        response
            .json()
            .await
            .context("reading the list of containers")
    }

    async fn post(&self, path: &str, body: Option<&Value>) -> anyhow::Result<()> {
        let mut request = self
            .http
            .request(Method::POST, format!("http://docker{path}"));
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request
            .send()
            .await
            .with_context(|| format!("POST {path}"))?;
        let status = response.status();
        // 304: the container is already running.
        if !status.is_success() && status != reqwest::StatusCode::NOT_MODIFIED {
            bail!("POST {path} returned {status}: {}", response.text().await?);
        }
        Ok(())
    }
}

fn process(container: &Container, up: &Up) -> Process {
    let name = container.service().to_owned();
    let state = match container.state.as_str() {
        "running" if up.get(&name) == Some(&false) => "starting",
        "running" => "running",
        "paused" => "paused",
        "restarting" | "created" => "starting",
        _ => "dead",
    };
    let actions = match state {
        "dead" => vec![],
        "paused" => vec!["kill", "resume"],
        _ => vec!["kill", "pause"],
    };
    Process {
        kind: kind(&name),
        state,
        pid: None,
        since: DateTime::<Utc>::from_timestamp(container.created, 0),
        restarts: 0,
        actions,
        instead: None,
        name,
    }
}
