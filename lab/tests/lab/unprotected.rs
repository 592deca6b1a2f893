//! The services that are built with the feature `unprotected`. `scripts/test.sh --long` builds them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::lab;
use crate::price::{SERVICES, programs};

/// A database that no program reaches: an unprotected one ends before it tries.
const NOWHERE: &str = "postgres://127.0.0.1:1/nowhere";

/// The directory of the unprotected programs.
fn unprotected() -> PathBuf {
    let (target, profile) = (
        programs().parent().unwrap(),
        programs().file_name().unwrap(),
    );
    let dir = target.join("unprotected").join(profile);
    assert!(
        SERVICES.iter().all(|name| dir.join(name).is_file()),
        "the unprotected services are missing in {}: run scripts/test.sh --long",
        dir.display()
    );
    dir
}

fn migrate(program: &Path, setting: Option<&str>) -> String {
    let mut command = Command::new(program);
    command.args(["migrate", "--database-url", NOWHERE]);
    command.env_remove("RUN_UNPROTECTED");
    command.envs(setting.map(|value| ("RUN_UNPROTECTED", value)));
    let output = command.output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn unprotected_service_ends_unless_the_setting_allows_it() {
    for name in SERVICES {
        let program = unprotected().join(name);
        for setting in [None, Some("1")] {
            let error = migrate(&program, setting);
            assert!(
                error.contains("built with the feature `unprotected`"),
                "{error}"
            );
            assert!(error.contains("RUN_UNPROTECTED=true"), "{error}");
        }
        // With the setting it fails only because there is no database.
        let error = migrate(&program, Some("true"));
        assert!(!error.contains("`unprotected`"), "{error}");
        let error = migrate(&programs().join(name), None);
        assert!(!error.contains("`unprotected`"), "{error}");
    }
}

/// The check that the image build runs over its programs.
fn refuse(program: &Path) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/refuse-unprotected.sh");
    Command::new(script).arg(program).output().unwrap()
}

#[test]
fn image_build_rejects_unprotected_services() {
    for name in SERVICES {
        let output = refuse(&unprotected().join(name));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{name} was accepted");
        assert!(error.contains("`unprotected`"), "{error}");
        let output = refuse(&programs().join(name));
        assert!(output.status.success(), "{output:?}");
    }
    let output = refuse(Path::new("no-such-program"));
    assert!(!output.status.success(), "a missing program was accepted");
}

#[test]
fn bench_compares_protected_with_unprotected_services() {
    unprotected();
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("bench.json").to_str().unwrap().to_owned();
    let smallest = ["bench", "--smoke", "--kafka", "embedded", "--only", "price"];
    let output = lab(&[smallest.as_slice(), &["--json", &json]].concat());
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let price = &report["ratios"]["price"];
    for figure in [&price["median"], &price["measured"][0], &price["limit"][0]] {
        assert!(figure.as_f64().is_some_and(|it| it > 0.0), "{report:#}");
    }
    // The orders of both systems, each with one charge.
    assert!(report["orders"].as_u64() > Some(1), "{report:#}");
}
