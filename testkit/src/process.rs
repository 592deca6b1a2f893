//! One child process that cannot outlive this program.

mod launcher;

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::sync::watch;

use crate::scratch::Scratch;

/// How long [`Process::end_now`] waits before it sends SIGKILL.
const ABRUPT_END_WAIT: Duration = Duration::from_secs(3);
const ABRUPT_END_POLL: Duration = Duration::from_millis(5);

/// What to run, and how to stop it.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The program: a path, or a name to look up in `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its environment, in addition to that of this program.
    pub env: Vec<(String, String)>,
    /// The file that its output is appended to. Without one it shares this program's console, and
    /// gets the terminal's Ctrl-C.
    pub log: Option<PathBuf>,
    /// The user to run as, if this program runs as root and the child refuses to.
    pub user: Option<&'static str>,
    /// Requests a graceful stop.
    pub stop_signal: Signal,
    /// Ends it immediately. The kernel also sends it when this program dies.
    pub abrupt_signal: Signal,
    /// The directory that it works in. It is kept for as long as the process may be restarted.
    pub files: Option<Arc<Scratch>>,
}

impl Spec {
    /// A program that stops on SIGTERM, survives SIGKILL without damage, and writes to a log.
    pub fn new(program: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        Spec {
            log: Some(log.into()),
            ..Spec::on_console(program)
        }
    }

    /// The same, with output to this program's console.
    pub fn on_console(program: impl Into<PathBuf>) -> Self {
        Spec {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            log: None,
            user: None,
            stop_signal: Signal::TERM,
            abrupt_signal: Signal::KILL,
            files: None,
        }
    }

    /// Adds arguments.
    pub fn args<T: Into<OsString>>(mut self, args: impl IntoIterator<Item = T>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }
}

/// A running child process; dropping it ends it immediately.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    stop_signal: Signal,
    abrupt_signal: Signal,
    /// Empty once reaped. Signals are sent under this lock, so never to a reused process id.
    child: Arc<Mutex<Option<Child>>>,
    exit: watch::Receiver<Option<ExitStatus>>,
}

impl Process {
    /// Starts the program, with `extra_env` in addition to the environment of `spec`.
    pub fn spawn(spec: &Spec, extra_env: &[(String, String)]) -> anyhow::Result<Process> {
        let mut command = launcher::command(spec)?;
        command
            .envs(spec.env.iter().map(|(name, value)| (name, value)))
            .envs(extra_env.iter().map(|(name, value)| (name, value)));
        if let Some(path) = &spec.log {
            let log = File::options().create(true).append(true).open(path);
            let log = log.with_context(|| format!("cannot write {}", path.display()))?;
            command
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log)
                // Only this program gets Ctrl-C, and then stops its children in order.
                .process_group(0);
        }
        let child = launcher::spawn(command)
            .with_context(|| format!("cannot start {}", spec.program.display()))?;
        let pid = Pid::from_child(&child);
        let child = Arc::new(Mutex::new(Some(child)));
        let (exit_sender, exit) = watch::channel(None);
        let process = Process {
            pid,
            stop_signal: spec.stop_signal,
            abrupt_signal: spec.abrupt_signal,
            child: Arc::clone(&child),
            exit,
        };
        std::thread::Builder::new()
            .name("reaper".to_owned())
            .spawn(move || reap(pid, &child, &exit_sender))
            .context("cannot start a thread")?;
        Ok(process)
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Sends a signal, unless the process has ended.
    pub fn signal(&self, signal: Signal) {
        if locked(&self.child).is_some() {
            // It can only fail without permission, or if the process has just ended.
            let _ = kill_process(self.pid, signal);
        }
    }

    /// Sends a signal to the process and its children. A postmaster that is paused starts no further
    /// child, so none is missed; one that is resumed is resumed last.
    pub(crate) fn signal_with_children(&self, signal: Signal) {
        if signal == Signal::STOP {
            self.signal(signal);
        }
        self.signal_children(signal);
        if signal != Signal::STOP {
            self.signal(signal);
        }
    }

    /// Sends a signal to the children of the process.
    pub(crate) fn signal_children(&self, signal: Signal) {
        for child in children(self.pid()) {
            let pid = i32::try_from(child).ok().and_then(Pid::from_raw);
            if let Some(pid) = pid {
                // It can only fail if the child has just ended.
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Waits until the process ends.
    pub async fn exited(&self) -> ExitStatus {
        let mut exit = self.exit.clone();
        // The reaper thread sends before it ends, so the error case does not occur.
        match exit.wait_for(Option::is_some).await {
            Ok(status) => status.unwrap_or_else(unknown_exit),
            Err(_) => unknown_exit(),
        }
    }

    /// Requests a graceful stop, and sends SIGKILL after the grace time.
    pub async fn stop(&self, grace: Duration) -> ExitStatus {
        self.signal(self.stop_signal);
        match tokio::time::timeout(grace, self.exited()).await {
            Ok(status) => status,
            Err(_) => {
                self.signal(Signal::KILL);
                self.exited().await
            }
        }
    }

    /// Ends it immediately, without waiting.
    pub fn abort(&self) {
        self.signal(self.abrupt_signal);
    }

    /// Ends it immediately and blocks until it has ended. For `drop`, which cannot await.
    pub(crate) fn end_now(&self) {
        self.abort();
        let deadline = Instant::now() + ABRUPT_END_WAIT;
        while self.exit.borrow().is_none() {
            if Instant::now() > deadline {
                self.signal(Signal::KILL);
                return;
            }
            std::thread::sleep(ABRUPT_END_POLL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end_now();
    }
}

/// Waits for the end without reaping, then reaps under the lock that guards the process id.
fn reap(pid: Pid, child: &Mutex<Option<Child>>, exit: &watch::Sender<Option<ExitStatus>>) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(pid), options), Err(Errno::INTR)) {}
    let mut child = locked(child);
    let status = child.take().and_then(|mut child| child.wait().ok());
    exit.send_replace(Some(status.unwrap_or_else(unknown_exit)));
}

fn unknown_exit() -> ExitStatus {
    ExitStatus::from_raw(1 << 8)
}

/// A panic elsewhere cannot leave the value half changed, so a poisoned lock is usable.
fn locked(child: &Mutex<Option<Child>>) -> MutexGuard<'_, Option<Child>> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a process exists and is not a zombie.
pub fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Whether a process is stopped by SIGSTOP.
pub fn is_paused(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "))
}

/// The processes whose parent is `pid`.
pub fn children(pid: u32) -> Vec<u32> {
    let parent = format!("PPid:\t{pid}");
    let is_child = |child: &u32| {
        std::fs::read_to_string(format!("/proc/{child}/status"))
            .is_ok_and(|status| status.lines().any(|line| line == parent))
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(is_child)
        .collect()
}
