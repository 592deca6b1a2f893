//! Crash points: named places between two durable steps, where a test kills or pauses the process.
//!
//! They exist only with the feature `crash-points`. `CRASH_POINTS=name[:hits][,…]` arms points at
//! start, `POST /admin/crash-points` in a running process. On its n-th hit an armed point sends SIGKILL
//! (no destructor and no flush runs), or SIGSTOP. The test resumes a stopped process after another
//! process has taken over.

use std::future::Future;
use std::time::Duration;

/// How long [`during`] waits before it fires, so that the request has left the process.
pub const IN_FLIGHT_MS: u64 = 50;

/// Kills or pauses the process if the point is armed. Does nothing without the feature.
#[inline]
pub fn point(name: &'static str) {
    #[cfg(feature = "crash-points")]
    armed::hit(name);
    #[cfg(not(feature = "crash-points"))]
    let _ = name;
}

/// Like [`point`], but fires in the middle of `work`: after [`IN_FLIGHT_MS`], if it still runs then. On a busy
/// machine both may be ready when the task runs again; then the point fires.
pub async fn during<F: Future>(name: &'static str, work: F) -> F::Output {
    tokio::pin!(work);
    if cfg!(feature = "crash-points") && is_armed(name) {
        let in_flight = tokio::time::sleep(Duration::from_millis(IN_FLIGHT_MS));
        tokio::select! {
            biased;
            () = in_flight => point(name),
            output = &mut work => return output,
        }
    }
    work.await
}

#[cfg(feature = "crash-points")]
pub use armed::{Action, arm, arm_from_env, disarm_all, is_armed, list};

#[cfg(not(feature = "crash-points"))]
fn is_armed(_: &str) -> bool {
    false
}

#[cfg(feature = "crash-points")]
mod armed {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use std::time::Duration;

    use anyhow::Context as _;
    use rustix::process::{Signal, getpid, kill_process};
    use serde::{Deserialize, Serialize};

    const ENV: &str = "CRASH_POINTS";

    /// Longest wait for SIGSTOP to take effect.
    const STOP_TIMEOUT: Duration = Duration::from_millis(200);

    /// The action of an armed point.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Action {
        #[default]
        Kill,
        Pause,
    }

    /// The number of hits left until the point fires, and its action.
    #[derive(Clone, Copy, Debug, Serialize)]
    pub struct Armed {
        hits: u32,
        action: Action,
    }

    static POINTS: Mutex<BTreeMap<String, Armed>> = Mutex::new(BTreeMap::new());
    /// Avoids the lock while no point is armed.
    static ANY: AtomicBool = AtomicBool::new(false);

    fn points() -> MutexGuard<'static, BTreeMap<String, Armed>> {
        POINTS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Arms a point. It fires on the `hits`-th hit; 1 means the next one.
    pub fn arm(name: &str, hits: u32, action: Action) {
        let hits = hits.max(1);
        points().insert(name.to_owned(), Armed { hits, action });
        ANY.store(true, Ordering::Release);
    }

    pub fn disarm_all() {
        points().clear();
        ANY.store(false, Ordering::Release);
    }

    /// Arms the points of `CRASH_POINTS`.
    pub fn arm_from_env() -> anyhow::Result<()> {
        let Ok(spec) = std::env::var(ENV) else {
            return Ok(());
        };
        for entry in spec.split(',').filter(|entry| !entry.is_empty()) {
            let (name, hits) = entry.split_once(':').unwrap_or((entry, "1"));
            let hits = hits
                .parse()
                .with_context(|| format!("{ENV}: {entry:?} is not name or name:hits"))?;
            arm(name, hits, Action::Kill);
        }
        Ok(())
    }

    pub fn is_armed(name: &str) -> bool {
        ANY.load(Ordering::Acquire) && points().contains_key(name)
    }

    pub fn list() -> BTreeMap<String, Armed> {
        points().clone()
    }

    pub(super) fn hit(name: &'static str) {
        if !ANY.load(Ordering::Acquire) {
            return;
        }
        let fires = match points().get_mut(name) {
            Some(armed) => {
                armed.hits = armed.hits.saturating_sub(1);
                (armed.hits == 0).then_some(armed.action)
            }
            None => None,
        };
        match fires {
            None => {}
            Some(Action::Kill) => die(name),
            Some(Action::Pause) => {
                points().remove(name);
                tracing::error!(point = name, "crash point hit, pausing the process");
                let _ = kill_process(getpid(), Signal::STOP);
                // The signal needs a moment. Nothing after this line may run before the signal
                // takes effect.
                std::thread::park_timeout(STOP_TIMEOUT);
            }
        }
    }

    fn die(name: &'static str) -> ! {
        tracing::error!(point = name, "crash point hit, killing the process");
        let _ = kill_process(getpid(), Signal::KILL);
        // The signal needs a moment. Nothing may run before the signal takes effect.
        loop {
            std::thread::park();
        }
    }
}
