//! Where the parts of a running system are: all that another command needs to attach to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::service::{PerService, Service};

/// The file in the state directory that describes the running system.
const FILE_NAME: &str = "system.json";
/// The same description in the environment, where no `lab up` runs the system: in containers.
const ENV: &str = "CHARGEONCE_SYSTEM";

/// Addresses and process ids of a running system.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Endpoints {
    /// Base URLs of each service's replicas, without a trailing slash; the first is the main one.
    pub urls: PerService<Vec<String>>,
    /// Each service's database.
    pub database_urls: PerService<String>,
    /// Kafka's bootstrap servers.
    pub brokers: String,
    /// The topic between the services.
    pub topic: String,
    /// Host and port of the mail sink.
    #[serde(default)]
    pub smtp: String,
    /// Where the mails are that it took, as files (see `testkit::smtp_sink::mails`).
    #[serde(default)]
    pub mails_dir: PathBuf,
    /// Put before the names of databases, topic and groups.
    #[serde(default)]
    pub prefix: String,
    /// Where the logs are.
    #[serde(default)]
    pub state_dir: PathBuf,
    /// Main process ids by name: the services, `smtp`, and `postgres` and `kafka` where
    /// the lab runs them.
    #[serde(default)]
    pub pids: BTreeMap<String, u32>,
    /// The lab that runs the system.
    #[serde(default)]
    pub lab_pid: u32,
}

impl Endpoints {
    /// Reads what a running `lab up` wrote into its state directory, or what the environment says
    /// instead.
    pub fn load(state_dir: &Path) -> anyhow::Result<Self> {
        if let Some(text) = std::env::var(ENV).ok().filter(|text| !text.is_empty()) {
            return serde_json::from_str(&text).with_context(|| format!("{ENV} is damaged"));
        }
        let path = state_dir.join(FILE_NAME);
        let text = std::fs::read_to_string(&path).with_context(|| {
            format!(
                "no running system found ({} cannot be read): start one with `lab up`",
                path.display()
            )
        })?;
        serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))
    }

    /// The directory used by `lab up` and by the commands that attach to it:
    /// `CHARGEONCE_STATE_DIR`, or `chargeonce` in the user's state directory.
    pub fn default_state_dir() -> PathBuf {
        let from = |name: &str| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        from("CHARGEONCE_STATE_DIR")
            .or_else(|| from("XDG_STATE_HOME").map(|dir| dir.join("chargeonce")))
            .or_else(|| from("HOME").map(|dir| dir.join(".local/state/chargeonce")))
            .unwrap_or_else(|| std::env::temp_dir().join("chargeonce"))
    }

    /// The base URL of a service's first replica, without a trailing slash.
    pub fn url(&self, service: Service) -> &str {
        self.urls.get(service).first().map_or("", String::as_str)
    }

    /// The URL of a service's database.
    pub fn database_url(&self, service: Service) -> &str {
        self.database_urls.get(service)
    }

    /// The consumer group of a service.
    pub fn group(&self, service: Service) -> String {
        format!("{}{service}", self.prefix)
    }

    /// Replaces the description in the state directory; a reader never sees half of it.
    pub fn save(&self) -> anyhow::Result<()> {
        let path = self.state_dir.join(FILE_NAME);
        let draft = self.state_dir.join(format!("{FILE_NAME}.draft"));
        std::fs::write(&draft, serde_json::to_vec_pretty(self)?)
            .and_then(|()| std::fs::rename(&draft, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Takes the description away, so that nobody attaches to a system that is gone.
    pub fn remove(state_dir: &Path) {
        // A missing file is what we want, and nothing else could be done about it here.
        let _ = std::fs::remove_file(state_dir.join(FILE_NAME));
    }
}
