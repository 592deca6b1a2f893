//! Finding a running system: addresses of its services, databases and broker, as one JSON document.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};

use crate::operator::{OperatorClient, Token};
use crate::service::{PerService, Service};

/// The file in the state directory that describes the running system.
const FILE_NAME: &str = "system.json";
/// Holds the same document where `lab up` does not run the system, for example in containers.
const SYSTEM_VAR: &str = "CHARGEONCE_SYSTEM";
/// Overrides the default state directory.
const STATE_DIR_VAR: &str = "CHARGEONCE_STATE_DIR";

/// Addresses and process ids of a running system.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Endpoints {
    /// Base URLs of each service's replicas, without a trailing slash; the first is the main one.
    pub urls: PerService<Vec<String>>,
    /// Base URLs of the operator listeners of the same replicas, in the same order.
    #[serde(default)]
    pub operator_urls: PerService<Vec<String>>,
    /// A token for the operator listeners; empty if the document has none.
    #[serde(default)]
    pub operator_token: Token,
    /// Each service's database.
    pub database_urls: PerService<String>,
    /// Kafka's bootstrap servers.
    pub brokers: String,
    /// The topic between the services.
    pub topic: String,
    /// Host and port of the mail sink.
    #[serde(default)]
    pub smtp: String,
    /// The directory in which the mail sink stores the mails.
    #[serde(default)]
    pub mails_dir: PathBuf,
    /// Prefix of the names of databases, topic and consumer groups.
    #[serde(default)]
    pub prefix: String,
    /// The directory with the logs.
    #[serde(default)]
    pub state_dir: PathBuf,
    /// Main process ids by name: the services, `smtp`, and `postgres` and `kafka` if the lab runs
    /// them.
    #[serde(default)]
    pub pids: BTreeMap<String, u32>,
    /// The process id of the lab that runs the system.
    #[serde(default)]
    pub lab_pid: u32,
}

impl Endpoints {
    /// Finds the system to attach to. A state directory named by the caller comes first, then
    /// `CHARGEONCE_SYSTEM`, then the default state directory.
    pub fn find(state_dir: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(dir) = state_dir {
            return Self::load(dir);
        }
        let described = std::env::var(SYSTEM_VAR)
            .ok()
            .filter(|text| !text.is_empty());
        match described {
            Some(text) => serde_json::from_str(&text)
                .with_context(|| format!("{SYSTEM_VAR} does not hold a system description")),
            None => Self::load(&Self::default_state_dir()),
        }
    }

    /// Reads the description that a running `lab up` keeps in its state directory.
    pub fn load(state_dir: &Path) -> anyhow::Result<Self> {
        let path = state_dir.join(FILE_NAME);
        let text = std::fs::read_to_string(&path).map_err(|error| {
            anyhow!(
                "no running system found: {} cannot be read ({error}). Start a system with \
                 `lab up`, name its state directory with --state-dir or {STATE_DIR_VAR}, or \
                 describe a system in {SYSTEM_VAR}",
                path.display()
            )
        })?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} does not hold a system description", path.display()))
    }

    /// The directory used by `lab up` and by the commands that attach to it:
    /// `CHARGEONCE_STATE_DIR`, or `chargeonce` in the user's state directory.
    pub fn default_state_dir() -> PathBuf {
        let from = |name: &str| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        from(STATE_DIR_VAR)
            .or_else(|| from("XDG_STATE_HOME").map(|dir| dir.join("chargeonce")))
            .or_else(|| from("HOME").map(|dir| dir.join(".local/state/chargeonce")))
            .unwrap_or_else(|| std::env::temp_dir().join("chargeonce"))
    }

    /// The base URL of a service's first replica, without a trailing slash.
    pub fn url(&self, service: Service) -> &str {
        self.urls.get(service).first().map_or("", String::as_str)
    }

    /// The base URL of the operator listener of a service's first replica.
    pub fn operator_url(&self, service: Service) -> &str {
        let urls = self.operator_urls.get(service);
        urls.first().map_or("", String::as_str)
    }

    /// A client of the operator listeners with this document's token. `reason` goes to the audit log.
    pub fn operator(&self, reason: &str, timeout: Duration) -> anyhow::Result<OperatorClient> {
        OperatorClient::new(self.operator_token.clone(), Some(reason), timeout)
    }

    /// The URL of a service's database.
    pub fn database_url(&self, service: Service) -> &str {
        self.database_urls.get(service)
    }

    /// The consumer group of a service.
    pub fn group(&self, service: Service) -> String {
        format!("{}{service}", self.prefix)
    }

    /// Replaces the description in the state directory. The file is renamed into place, so a reader
    /// never sees half of it.
    pub fn save(&self) -> anyhow::Result<()> {
        let path = self.state_dir.join(FILE_NAME);
        let draft = self.state_dir.join(format!("{FILE_NAME}.draft"));
        std::fs::write(&draft, serde_json::to_vec_pretty(self)?)
            .and_then(|()| std::fs::rename(&draft, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Removes the description, so that no command attaches to a system that has stopped.
    pub fn remove(state_dir: &Path) {
        // A missing file is fine, and other errors cannot be handled here.
        let _ = std::fs::remove_file(state_dir.join(FILE_NAME));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_system_error_says_what_to_do() {
        let error = Endpoints::load(Path::new("/nonexistent")).unwrap_err();
        let text = format!("{error:#}");
        for remedy in ["lab up", "--state-dir", STATE_DIR_VAR, SYSTEM_VAR] {
            assert!(text.contains(remedy), "{text}");
        }
    }
}
