use std::fs;
use std::process::{Command, Stdio};

use testkit::eventually;
use testkit::process::{children, is_alive};

const LAB: &str = env!("CARGO_BIN_EXE_lab");

#[test]
fn the_exit_code_is_that_of_the_command() {
    let status = Command::new(LAB)
        .args(["infra", "--kafka", "none", "--", "sh", "-c"])
        .arg("test -n \"$TEST_DATABASE_URL\" && exit 42")
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(42));
}

#[tokio::test]
async fn a_killed_lab_leaves_no_process_behind() {
    let dir = tempfile::tempdir().unwrap();
    let ready = dir.path().join("ready");
    let mut lab = Command::new(LAB)
        .args(["infra", "--kafka", "embedded", "--", "sh", "-c"])
        .arg(format!("touch {}; exec sleep 600", ready.display()))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the command runs", async || ready.exists()).await;
    let family = children(lab.id());
    let name = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    let mut names: Vec<String> = family.iter().map(name).collect();
    names.sort();
    assert_eq!(names, ["lab\n", "postgres\n", "sleep\n"]);
    // Postgres has children of its own, which have to go as well.
    let mut all = family.clone();
    all.extend(family.iter().flat_map(|pid| children(*pid)));
    assert!(all.len() > family.len());

    lab.kill().unwrap();
    lab.wait().unwrap();
    eventually("all of them are gone", async || {
        !all.iter().any(|pid| is_alive(*pid))
    })
    .await;
}
