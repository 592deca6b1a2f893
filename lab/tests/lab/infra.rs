use std::fs;
use std::process::{Command, Stdio};

use testkit::eventually;
use testkit::process::{children, is_alive};

const LAB: &str = env!("CARGO_BIN_EXE_lab");

#[test]
fn exit_code_is_that_of_the_command() {
    let status = Command::new(LAB)
        .args(["infra", "--kafka", "none", "--", "sh", "-c"])
        .arg("test -n \"$TEST_DATABASE_URL\" && exit 42")
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(42));
}

#[tokio::test]
async fn killed_lab_leaves_no_process() {
    let mut lab = Command::new(LAB)
        .args(["infra", "--kafka", "embedded", "--", "sleep", "600"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let name = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    eventually("the command runs", async || {
        let mut names: Vec<String> = children(lab.id()).iter().map(name).collect();
        names.sort();
        names == ["lab\n", "postgres\n", "sleep\n"]
    })
    .await;
    let direct = children(lab.id());
    // Postgres has child processes, which must also end.
    let mut all = direct.clone();
    all.extend(direct.iter().flat_map(|pid| children(*pid)));
    assert!(all.len() > direct.len());

    lab.kill().unwrap();
    lab.wait().unwrap();
    eventually("every process has ended", async || {
        !all.iter().any(|pid| is_alive(*pid))
    })
    .await;
}
