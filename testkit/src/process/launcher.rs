//! Starts every child from one thread, with a wrapper that ends the child when that thread ends.
//!
//! The kernel sends the parent-death signal when the *thread* that forked the child ends. A tokio
//! worker or a test's thread may end long before the program. So all children are started by one
//! thread that lives as long as the program.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::thread;

use anyhow::bail;
use rustix::process::{Signal, geteuid};

use super::Spec;

type Job = (Command, mpsc::Sender<io::Result<Child>>);

/// Starts a command from the long-lived thread.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    static JOBS: Mutex<Option<mpsc::Sender<Job>>> = Mutex::new(None);
    let (result_sender, result) = mpsc::channel();
    {
        let mut jobs = JOBS.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = match &*jobs {
            Some(sender) => sender,
            None => jobs.insert(start_thread()?),
        };
        sender
            .send((command, result_sender))
            .map_err(io::Error::other)?;
    }
    result.recv().map_err(io::Error::other)?
}

fn start_thread() -> io::Result<mpsc::Sender<Job>> {
    let (sender, jobs) = mpsc::channel::<Job>();
    thread::Builder::new()
        .name("launcher".to_owned())
        .spawn(move || {
            for (mut command, result) in jobs {
                // Sending fails only if the caller is gone. Then dropping the child is right.
                let _ = result.send(command.spawn());
            }
        })?;
    Ok(sender)
}

/// The command line: `setpriv`, which changes the user, sets the parent-death signal and then
/// executes the program. The order matters, because a change of user clears the signal.
pub(super) fn command(spec: &Spec) -> anyhow::Result<Command> {
    let user = spec.user.filter(|_| geteuid().is_root());
    let Some(setpriv) = setpriv() else {
        if let Some(user) = user {
            bail!(
                "{} refuses to run as root, and `setpriv`, which can run it as {user}, is missing: \
                 install the package util-linux",
                spec.program.display()
            );
        }
        let mut command = Command::new(&spec.program);
        command.args(&spec.args);
        return Ok(command);
    };
    let mut command = Command::new(setpriv);
    if let Some(user) = user {
        command.args([
            format!("--reuid={user}"),
            format!("--regid={user}"),
            "--init-groups".to_owned(),
        ]);
    }
    let signal = match spec.abrupt_signal {
        Signal::QUIT => "QUIT",
        _ => "KILL",
    };
    command
        .args(["--pdeathsig", signal, "--"])
        .arg(&spec.program)
        .args(&spec.args);
    Ok(command)
}

/// The path of `setpriv`, looked up once. Without it only the parent-death signal is missing.
fn setpriv() -> Option<&'static PathBuf> {
    static SETPRIV: OnceLock<Option<PathBuf>> = OnceLock::new();
    SETPRIV
        .get_or_init(|| crate::binaries::in_path("setpriv"))
        .as_ref()
}
