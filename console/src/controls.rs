//! Kills, pauses and resumes the processes of the system, and cuts connections. The console can do all of this
//! where the lab supervises the processes, and little where they are containers.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use endpoints::Service;
use testkit::supervisor::ProcessStatus;
use testkit::system::{PAYMENT_PSP, System};
use testkit::{broker, postgres, smtp_sink};

use crate::docker::Docker;
use crate::problem::Problem;
use crate::state::Process;

/// How to reach the processes.
pub enum Controls {
    /// The lab that runs this console supervises them.
    Processes(Arc<System>),
    /// They are containers of a compose project. Docker is set if its socket is mounted.
    Containers(Option<Docker>),
}

/// What to do to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Kill,
    Pause,
    Resume,
}

impl Action {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "kill" => Some(Self::Kill),
            "pause" => Some(Self::Pause),
            "resume" => Some(Self::Resume),
            _ => None,
        }
    }
}

/// Which services responded lately, by process name.
pub(crate) type Up = BTreeMap<String, bool>;

impl Controls {
    pub(crate) fn mode(&self) -> &'static str {
        match self {
            Self::Processes(_) => "processes",
            Self::Containers(_) => "containers",
        }
    }

    /// The supervised system, if there is one.
    pub(crate) fn system(&self) -> Option<&Arc<System>> {
        match self {
            Self::Processes(system) => Some(system),
            Self::Containers(_) => None,
        }
    }

    pub(crate) async fn processes(&self, up: &Up) -> Vec<Process> {
        match self {
            Self::Processes(system) => {
                let all = system.processes().into_iter();
                let mut all: Vec<Process> = all.map(|it| supervised(it, up)).collect();
                all.sort_by_key(|process| rank(&process.name));
                all
            }
            Self::Containers(Some(docker)) => match docker.processes(up).await {
                Ok(processes) => processes,
                Err(_) => named(up),
            },
            Self::Containers(None) => named(up),
        }
    }

    /// Whether a process can be killed now.
    pub(crate) fn can_kill(&self, name: &str) -> bool {
        match self {
            Self::Processes(system) => system.pid(name).is_some(),
            Self::Containers(docker) => docker.is_some(),
        }
    }

    pub(crate) async fn act(&self, name: &str, action: Action) -> Result<(), Problem> {
        match self {
            Self::Processes(system) => {
                if !system
                    .processes()
                    .iter()
                    .any(|process| process.name == name)
                {
                    return Err(Problem::not_found(format!("No process is named {name}.")));
                }
                match action {
                    Action::Kill => system.kill(name).await,
                    Action::Pause => system.pause(name),
                    Action::Resume => system.resume(name),
                }
                .map_err(|error| Problem::conflict(format!("{error:#}")))
            }
            Self::Containers(Some(docker)) => Ok(docker.act(name, action).await?),
            Self::Containers(None) => Err(Problem::not_here(
                "The console has no access to Docker. Run the command in a terminal.",
                instead(name, action),
            )),
        }
    }

    /// The command that cuts the connection, if the console cannot do it itself.
    pub(crate) fn cut_instead(&self) -> Option<String> {
        match self {
            Self::Processes(system) if system.cuts().contains(&PAYMENT_PSP) => None,
            Self::Processes(_) => Some("lab up --network-cuts".to_owned()),
            Self::Containers(Some(_)) => None,
            Self::Containers(None) => Some("scripts/chaos/cut-network.sh".to_owned()),
        }
    }

    pub(crate) async fn cut(&self, on: bool) -> Result<(), Problem> {
        if let Some(instead) = self.cut_instead() {
            let detail = "The console cannot cut this connection. Run the command in a terminal.";
            return Err(Problem::not_here(detail, instead));
        }
        match self {
            Self::Processes(system) => Ok(system.cut(PAYMENT_PSP, on)?),
            Self::Containers(Some(docker)) => Ok(docker.cut_provider(on).await?),
            Self::Containers(None) => Ok(()),
        }
    }
}

/// The command that does the same to a container.
pub(crate) fn instead(name: &str, action: Action) -> String {
    let service = container(name);
    match action {
        // After `docker compose kill` the restart policy does not apply.
        Action::Kill => format!("docker compose kill {service} && docker compose start {service}"),
        Action::Pause => format!("docker compose pause {service}"),
        Action::Resume => format!("docker compose unpause {service}"),
    }
}

/// The compose service that runs a process.
pub(crate) fn container(name: &str) -> &str {
    match name {
        smtp_sink::PROCESS_NAME => "mail",
        name => name,
    }
}

pub(crate) fn kind(name: &str) -> &'static str {
    match name {
        postgres::PROCESS_NAME => "database",
        // `kafka-2` is a node of a cluster.
        name if name.split('-').next() == Some(broker::PROCESS_NAME) => "broker",
        smtp_sink::PROCESS_NAME | "mail" => "mail",
        _ => "service",
    }
}

/// Sorts processes in the order of the flow.
pub(crate) fn rank(name: &str) -> (usize, String) {
    const ORDER: [&str; 5] = ["order", "payment", "psp", "fulfilment", "receipt"];
    let first = ORDER
        .iter()
        .position(|it| name.split('-').next() == Some(it));
    (first.unwrap_or(ORDER.len()), name.to_owned())
}

fn supervised(status: ProcessStatus, up: &Up) -> Process {
    let state = match (status.pid, status.is_paused) {
        (None, _) => "dead",
        (Some(_), true) => "paused",
        (Some(_), false) => match up.get(&status.name) {
            Some(false) => "starting",
            _ => "running",
        },
    };
    let actions = match state {
        "dead" => vec![],
        "paused" => vec!["kill", "resume"],
        _ => vec!["kill", "pause"],
    };
    Process {
        kind: kind(&status.name),
        state,
        pid: status.pid,
        since: Some(DateTime::<Utc>::from(status.started_at)),
        restarts: status.restarts,
        actions,
        instead: None,
        name: status.name,
    }
}

/// Containers that the console cannot control, with the state that it sees from outside.
fn named(up: &Up) -> Vec<Process> {
    let services = Service::ALL.map(Service::name);
    let infrastructure = [broker::PROCESS_NAME, postgres::PROCESS_NAME];
    let names = services.into_iter().chain(infrastructure);
    let mut all: Vec<Process> = names
        .map(|name| Process {
            name: name.to_owned(),
            kind: kind(name),
            state: match up.get(name) {
                Some(false) => "dead",
                _ => "running",
            },
            pid: None,
            since: None,
            restarts: 0,
            actions: Vec::new(),
            instead: Some(instead(name, Action::Kill)),
        })
        .collect();
    all.sort_by_key(|process| rank(&process.name));
    all
}
