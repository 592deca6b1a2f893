//! Systems that tests use one after another. Most of the time of a short test is the start of its system,
//! so a test that leaves its system settled hands it on.
//!
//! The systems run on a runtime of their own, because a test's runtime ends with the test. They end with
//! this program.

use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use anyhow::Context as _;
use endpoints::Service;
use reqwest::Method;
use testkit::smtp_sink::behaviour;
use testkit::system::{System, SystemOptions};
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::harness::{REASON, SETTLE_TIMEOUT, options};

/// State directories of shared systems are named after the program that uses them.
const DIR_PREFIX: &str = "end-to-end-";

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Runtime::new().expect("a runtime for shared systems"));
static IDLE: Mutex<Vec<System>> = Mutex::new(Vec::new());

/// An idle system, or a new one with the default [`options`].
pub(crate) async fn take() -> anyhow::Result<System> {
    let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    if let Some(system) = idle {
        return Ok(system);
    }
    let options = shared_options()?;
    let start = move || RUNTIME.block_on(System::start(options));
    tokio::task::spawn_blocking(start).await?
}

/// Removes every fault of a settled system and makes it available to the next test.
pub(crate) async fn hand_on(system: System) -> anyhow::Result<()> {
    for service in Service::ALL {
        // A process that a test killed may still be starting when the test ends.
        system.wait_ready(service.name(), SETTLE_TIMEOUT).await?;
        if service == Service::Psp {
            continue; // It has no crash points.
        }
        let url = format!("{}/admin/crash-points", system.operator_url(service));
        let operator = system.operator(REASON)?;
        operator.send(Method::DELETE, &url, None).await?;
    }
    system.faults(REASON)?.clear().await?;
    behaviour::clear(&system.endpoints().mails_dir)?;
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    idle.push(system);
    Ok(())
}

fn shared_options() -> anyhow::Result<SystemOptions> {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR"));
    remove_old_dirs(root)?;
    let name = format!("{DIR_PREFIX}{}-{}", std::process::id(), Uuid::new_v4());
    Ok(SystemOptions {
        state_dir: Some(root.join(name)),
        ..options()
    })
}

/// Removes the state directories of programs that have ended: no test knows that it is the last one.
fn remove_old_dirs(root: &Path) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(root).with_context(|| root.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        if has_ended(&entry.file_name().to_string_lossy()) {
            // Another test may be removing it too.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// Whether this is the state directory of a program that no longer runs.
fn has_ended(dir_name: &str) -> bool {
    let owner = dir_name.strip_prefix(DIR_PREFIX);
    let pid = owner.and_then(|owner| owner.split('-').next());
    pid.is_some_and(|pid| !PathBuf::from("/proc").join(pid).exists())
}
