use std::path::PathBuf;

use testkit::process::Spec;
use testkit::scratch::Scratch;
use testkit::supervisor::Supervisor;

use testkit::eventually;
use testkit::process::is_alive;

use crate::WAIT_MAX;

struct Fixture {
    scratch: Scratch,
    supervisor: Supervisor,
}

impl Fixture {
    fn new(restart: bool) -> Self {
        Fixture {
            scratch: Scratch::new().unwrap(),
            supervisor: Supervisor::new(restart, true),
        }
    }

    fn log(&self) -> PathBuf {
        self.scratch.path().join("log")
    }

    /// Starts a shell that appends a line to the log, then runs `script`.
    fn start(&self, script: &str, first_env: &[(String, String)]) {
        let script = format!("echo started $FIRST_START; {script}");
        let spec = Spec::new("sh", self.log()).args(["-c", script.as_str()]);
        self.supervisor.start("it", spec, first_env).unwrap();
    }

    async fn log_is(&self, expected: &str) {
        let read = || std::fs::read_to_string(self.log()).unwrap_or_default();
        eventually(expected, async || read() == expected).await;
    }
}

#[tokio::test]
async fn restart_does_not_get_the_first_environment() {
    let it = Fixture::new(true);
    let crash_once = "if [ -n \"$FIRST_START\" ]; then exit 9; fi; exec sleep 600";
    it.start(crash_once, &[("FIRST_START".into(), "yes".into())]);
    let exit = it.supervisor.wait_exit("it", WAIT_MAX).await.unwrap();
    assert_eq!(exit.code(), Some(9));
    it.log_is("started yes\nstarted\n").await;
    eventually("one restart", async || it.supervisor.restarts("it") == 1).await;
}

#[tokio::test]
async fn exit_before_the_call_is_returned_once() {
    let it = Fixture::new(false);
    it.start("exit 4", &[]);
    eventually("the process has ended", async || {
        it.supervisor.exits("it").len() == 1
    })
    .await;
    let exit = it.supervisor.wait_exit("it", WAIT_MAX).await.unwrap();
    assert_eq!(exit.code(), Some(4));
    let again = it
        .supervisor
        .wait_exit("it", std::time::Duration::from_millis(50));
    assert!(again.await.is_err());
}

#[tokio::test]
async fn killed_process_has_ended_and_is_restarted() {
    let it = Fixture::new(true);
    it.start("exec sleep 600", &[]);
    let first = it.supervisor.pid("it").unwrap();
    it.supervisor.kill("it").await.unwrap();
    assert!(!is_alive(first));
    eventually("a new process runs", async || {
        it.supervisor.pid("it").is_some_and(|pid| pid != first)
    })
    .await;
    let exit = it
        .supervisor
        .wait_exit("it", std::time::Duration::from_millis(50));
    assert!(exit.await.is_err(), "an exit by kill is not returned");
}

#[tokio::test]
async fn stopped_process_stays_down_until_started() {
    let it = Fixture::new(true);
    it.start("exec sleep 600", &[]);
    it.log_is("started\n").await;
    it.supervisor.stop("it").await.unwrap();
    assert_eq!(it.supervisor.pid("it"), None);
    assert!(it.supervisor.kill("it").await.is_err());
    it.supervisor.stop("it").await.unwrap();
    it.supervisor.start_again("it").unwrap();
    assert!(
        it.supervisor.start_again("it").is_err(),
        "it is already running"
    );
    it.log_is("started\nstarted\n").await;
    assert_eq!(it.supervisor.restarts("it"), 0);
}

#[tokio::test]
async fn without_restart_a_process_stays_down() {
    let it = Fixture::new(false);
    it.start("exit 1", &[]);
    it.supervisor.wait_exit("it", WAIT_MAX).await.unwrap();
    assert_eq!(it.supervisor.pid("it"), None);
    assert_eq!(it.supervisor.pids().len(), 0);
}

#[tokio::test]
async fn dropped_supervisor_leaves_no_process() {
    let it = Fixture::new(true);
    it.start("exec sleep 600", &[]);
    let pid = it.supervisor.pid("it").unwrap();
    drop(it.supervisor);
    assert!(!is_alive(pid));
}
