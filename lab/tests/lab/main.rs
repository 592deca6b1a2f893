//! The lab's own tests: real processes, on free ports.

// The lint's exception for tests does not reach the functions that tests call.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod broker;
mod infra;
mod postgres;
mod process;
mod smtp_sink;
mod supervisor;
mod system;

use std::time::{Duration, Instant};

/// Long enough for a busy machine; reached only by a test that fails.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(10);

/// Polls until the condition holds.
async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "it never came true: {what}");
        tokio::time::sleep(POLL).await;
    }
}

/// Whether a process exists and is not a zombie that waits for its parent.
fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// The processes whose parent is `pid`.
fn children(pid: u32) -> Vec<u32> {
    let parent = format!("PPid:\t{pid}");
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|child: &u32| {
            std::fs::read_to_string(format!("/proc/{child}/status"))
                .is_ok_and(|status| status.lines().any(|line| line == parent))
        })
        .collect()
}
