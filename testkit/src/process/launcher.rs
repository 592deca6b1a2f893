//! The thread that every child is started from, and the wrapper that ties a child to it.
//!
//! The kernel's parent-death signal fires when the *thread* that forked the child ends. A tokio
//! worker or a test's thread may end long before the program, so one thread that lives as long
//! as the program starts them all.

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
    let (reply, answer) = mpsc::channel();
    {
        let mut jobs = JOBS.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = match &*jobs {
            Some(sender) => sender,
            None => jobs.insert(start_thread()?),
        };
        sender.send((command, reply)).map_err(io::Error::other)?;
    }
    answer.recv().map_err(io::Error::other)?
}

fn start_thread() -> io::Result<mpsc::Sender<Job>> {
    let (sender, jobs) = mpsc::channel::<Job>();
    thread::Builder::new()
        .name("launcher".to_owned())
        .spawn(move || {
            for (mut command, reply) in jobs {
                // Nobody waits for the answer only if the caller is gone; then dropping is right.
                let _ = reply.send(command.spawn());
            }
        })?;
    Ok(sender)
}

/// The command line: the program itself, or `setpriv` which becomes the program after it has
/// changed the user and asked for the parent-death signal (in this order: a change of user
/// clears the signal).
pub(super) fn command(spec: &Spec) -> anyhow::Result<Command> {
    let user = spec.user.filter(|_| geteuid().is_root());
    let Some(setpriv) = setpriv() else {
        if let Some(user) = user {
            bail!(
                "{} refuses to run as root, and `setpriv` (package util-linux), which would make \
                 it run as {user}, is missing",
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

/// Where `setpriv` is; looked up once. Systems without it lose the parent-death signal only.
fn setpriv() -> Option<&'static PathBuf> {
    static SETPRIV: OnceLock<Option<PathBuf>> = OnceLock::new();
    SETPRIV
        .get_or_init(|| crate::binaries::in_path("setpriv"))
        .as_ref()
}
