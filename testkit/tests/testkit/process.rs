use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use testkit::process::{Process, Spec};
use testkit::scratch::Scratch;

use testkit::eventually;
use testkit::process::is_alive;

fn shell(scratch: &Scratch, script: &str) -> Spec {
    Spec::new("sh", scratch.path().join("log")).args(["-c", script])
}

#[tokio::test]
async fn output_is_logged_and_exit_code_is_reported() {
    let scratch = Scratch::new().unwrap();
    let spec = shell(&scratch, "echo out; echo err >&2; echo $COLOUR; exit 3");
    let process = Process::spawn(&spec, &[("COLOUR".into(), "blue".into())]).unwrap();
    assert_eq!(process.exited().await.code(), Some(3));
    let log = std::fs::read_to_string(scratch.path().join("log")).unwrap();
    assert_eq!(log, "out\nerr\nblue\n");
}

#[tokio::test]
async fn process_that_ignores_stop_is_killed_after_grace() {
    let scratch = Scratch::new().unwrap();
    let ready = scratch.path().join("ready");
    let script = format!(
        "trap '' TERM; touch {}; while :; do sleep 0.05; done",
        ready.display()
    );
    let process = Process::spawn(&shell(&scratch, &script), &[]).unwrap();
    eventually("the shell is ready", async || ready.exists()).await;
    let status = process.stop(Duration::from_millis(200)).await;
    assert_eq!(status.signal(), Some(9));
}

#[tokio::test]
async fn dropped_process_has_ended() {
    let scratch = Scratch::new().unwrap();
    let process = Process::spawn(&shell(&scratch, "exec sleep 600"), &[]).unwrap();
    let pid = process.pid();
    assert!(is_alive(pid));
    drop(process);
    assert!(!is_alive(pid));
}

#[test]
fn child_outlives_the_thread_that_spawned_it() {
    let scratch = Scratch::new().unwrap();
    let spec = shell(&scratch, "exec sleep 600");
    let thread = std::thread::spawn(move || Process::spawn(&spec, &[]).unwrap());
    // If this thread had forked the child, its end would send the parent-death signal.
    let process = thread.join().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let early = tokio::time::timeout(Duration::from_millis(300), process.exited()).await;
        assert!(early.is_err(), "the child ended with its thread: {early:?}");
    });
}
