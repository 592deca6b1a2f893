//! The table of crash windows matches the code, the tests and ARCHITECTURE.md.

use std::collections::BTreeSet;
use std::fs;

use crash_windows::{Points, WINDOWS, table};

use crate::repository::{assert_none, files, is_test, literals, read, root};

/// First parts of crash point names: the worker or step that reaches the point.
const PREFIXES: [&str; 11] = [
    "cancel",
    "charge",
    "direct",
    "inbox",
    "intake",
    "pay_again",
    "receipt",
    "reconcile",
    "redrive",
    "refund",
    "relay",
];
/// Prefixes whose crash points are in a shared crate, which every service that uses it reaches.
const SHARED: [(&str, &str); 3] = [
    ("inbox", "shared/inbox"),
    ("redrive", "shared/inbox"),
    ("relay", "shared/outbox"),
];

#[test]
fn windows_are_numbered_without_gaps() {
    let numbers: Vec<u8> = WINDOWS.iter().map(|window| window.number).collect();
    let expected: Vec<u8> = (1..=WINDOWS.len() as u8).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn every_place_of_a_window_exists() {
    let mut findings = Vec::new();
    for window in WINDOWS {
        assert!(
            !window.code.is_empty(),
            "window {} has no code",
            window.number
        );
        assert!(
            !window.tests.is_empty(),
            "window {} has no test",
            window.number
        );
        let places = window.code.iter().chain(window.sql).chain(window.tests);
        for place in places {
            let (path, name) = place.split_once('#').expect("places are path#name");
            match fs::read_to_string(root().join(path)) {
                Ok(text) if text.contains(name) => {}
                Ok(_) => findings.push(format!("{}: no `{name}` in {path}", window.number)),
                Err(_) => findings.push(format!("{}: no file {path}", window.number)),
            }
        }
        for place in window.tests {
            let (path, name) = place.split_once('#').expect("places are path#name");
            let text = fs::read_to_string(root().join(path)).unwrap_or_default();
            // A plain function, or an entry of the macro that makes one test per crash point.
            let is_test =
                text.contains(&format!("fn {name}(")) || text.contains(&format!("{name}: "));
            if !is_test {
                findings.push(format!("{}: {name} in {path} is not a test", window.number));
            }
        }
    }
    assert_none("places of crash windows", &findings);
}

#[test]
fn every_point_of_a_window_is_in_its_service() {
    let mut findings = Vec::new();
    for window in WINDOWS {
        if let Points::None(reason) = window.points {
            assert!(
                !reason.is_empty(),
                "window {} gives no reason",
                window.number
            );
        }
        for (service, point) in window.points() {
            let prefix = point.split('.').next().unwrap_or_default();
            let shared = SHARED.iter().find(|(name, _)| *name == prefix);
            let folder = shared.map_or(format!("services/{service}"), |(_, folder)| {
                (*folder).to_owned()
            });
            if !points_in(&folder).contains(*point) {
                findings.push(format!("{}: no `{point}` in {folder}", window.number));
            }
        }
    }
    assert_none("crash points of windows", &findings);
}

#[test]
fn no_crash_point_is_without_a_window() {
    let known: BTreeSet<&str> = WINDOWS
        .iter()
        .flat_map(|window| window.points())
        .map(|(_, point)| *point)
        .collect();
    let all = points_in("services").into_iter().chain(points_in("shared"));
    let unknown: Vec<String> = all.filter(|point| !known.contains(&**point)).collect();
    assert_none("crash points without a window", &unknown);
}

/// A test must arm every point by its name, so this fails if a point is renamed in the code only.
#[test]
fn every_point_is_armed_by_a_test() {
    let tests: String = files(&[".rs"])
        .into_iter()
        .filter(|file| is_test(&file.path))
        .map(|file| file.text)
        .collect();
    let armed: BTreeSet<String> = literals(&tests).into_iter().collect();
    let mut unarmed = Vec::new();
    for (_, point) in WINDOWS.iter().flat_map(|window| window.points()) {
        if !armed.contains(*point) {
            unarmed.push((*point).to_owned());
        }
    }
    assert_none("crash points that no test arms", &unarmed);
}

#[test]
fn architecture_shows_this_table() {
    let text = read("ARCHITECTURE.md");
    assert!(
        text.contains(&table()),
        "ARCHITECTURE.md must contain this table:\n{}",
        table()
    );
}

/// The crash points in the source of a folder, without tests.
fn points_in(folder: &str) -> BTreeSet<String> {
    let sources = files(&[".rs"]).into_iter();
    let sources = sources.filter(|file| file.path.starts_with(folder) && !is_test(&file.path));
    let is_point = |text: &String| {
        let is_step = |step: &str| step.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        text.split_once('.').is_some_and(|(prefix, step)| {
            PREFIXES.contains(&prefix) && !step.is_empty() && is_step(step)
        })
    };
    // Attributes of spans have names of the same form.
    let is_passed = |line: &&str| !line.contains("span.set(");
    sources
        .flat_map(|file| {
            let lines: Vec<&str> = file.text.lines().filter(is_passed).collect();
            literals(&lines.join("\n"))
        })
        .filter(is_point)
        .collect()
}
