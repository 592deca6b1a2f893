//! Marks every death and every return of a supervised process, whatever the cause.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use testkit::supervisor::ProcessStatus;
use testkit::system::System;
use uuid::Uuid;

use crate::app::App;
use crate::controls::kind;
use crate::state::MarkKind;

/// Longest wait until a restarted service is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// Watches until the console stops. Without a supervisor there is nothing to watch here.
pub(crate) async fn watch_processes(app: Arc<App>) {
    let Some(system) = app.options.controls.system().map(Arc::clone) else {
        return;
    };
    let mut changes = system.changes();
    let mut before = by_name(&system);
    loop {
        tokio::select! {
            () = app.stop.cancelled() => return,
            changed = changes.changed() => if changed.is_err() {
                return;
            },
        }
        let now = by_name(&system);
        // While the data is being deleted, the lab stops and starts services itself.
        if !app.hub.memory().is_resetting {
            for (name, status) in &now {
                compare(&app, &system, before.get(name), status);
            }
        }
        before = now;
        app.wake.notify_one();
    }
}

fn by_name(system: &System) -> BTreeMap<String, ProcessStatus> {
    let all = system.processes().into_iter();
    all.map(|status| (status.name.clone(), status)).collect()
}

fn compare(
    app: &Arc<App>,
    system: &Arc<System>,
    before: Option<&ProcessStatus>,
    now: &ProcessStatus,
) {
    let name = now.name.as_str();
    if now.exits > before.map_or(0, |it| it.exits) {
        let order = met_fault(app, name);
        let label = format!(
            "{name} died ({})",
            now.last_exit.map_or_else(String::new, describe)
        );
        app.hub.mark(MarkKind::Death, label, Some(name), order);
    }
    let is_new = now.pid.is_some() && now.pid != before.and_then(|it| it.pid);
    if is_new && now.restarts > before.map_or(0, |it| it.restarts) {
        let watch = announce_return(Arc::clone(app), Arc::clone(system), name.to_owned());
        let stop = app.stop.clone();
        app.background.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = watch => {}
            }
        });
    }
}

/// A process that dies at an armed crash point was working on the newest order that the console placed.
/// That order is followed.
fn met_fault(app: &App, name: &str) -> Option<Uuid> {
    let mut memory = app.hub.memory();
    let was_armed = memory.disarm(name);
    memory.followed.back().copied().filter(|_| was_armed)
}

async fn announce_return(app: Arc<App>, system: Arc<System>, name: String) {
    let pid = system.pid(&name);
    if kind(&name) == "service" && system.wait_ready(&name, READY_TIMEOUT).await.is_err() {
        return;
    }
    // If the process has died again since, its next restart is announced instead.
    if system.pid(&name) == pid {
        app.hub.mark(
            MarkKind::Return,
            format!("{name} is back"),
            Some(&name),
            None,
        );
        app.wake.notify_one();
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown reason".to_owned(),
    }
}
