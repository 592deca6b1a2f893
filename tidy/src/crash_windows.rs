//! The table of crash windows matches the code, the tests and ARCHITECTURE.md.

use std::collections::BTreeSet;
use std::fs;

use crash_windows::{Points, Window, table, windows};

use crate::repository::{File, assert_none, files, is_test, literals, read, root};

/// Files that a reader opens to understand a window: the code, the SQL and the test.
const FILES_PER_WINDOW_MAX: usize = 3;
/// How the code passes a crash point by its name.
const CALLS: [&str; 4] = [
    "crash::point(\"",
    "crash::during(\"",
    "reached)(\"",
    "reached(\"",
];
/// First parts of crash point names. Some points are chosen from a list before they are passed, so the
/// calls above do not show them all.
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
    ("inbox", "inbox"),
    ("redrive", "inbox"),
    ("relay", "outbox"),
];

#[test]
fn windows_are_numbered_without_gaps() {
    let numbers: Vec<usize> = windows().map(|window| window.number.into()).collect();
    let expected: Vec<usize> = (1..=windows().count()).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn every_place_of_a_window_exists() {
    let mut findings = Vec::new();
    for window in windows() {
        let number = window.number;
        assert!(!window.code.is_empty(), "window {number} has no code");
        assert!(!window.tests.is_empty(), "window {number} has no test");
        let code = window
            .code
            .iter()
            .map(|place| (place, is_code as fn(&str, &str) -> bool));
        let sql = window
            .sql
            .iter()
            .map(|place| (place, is_sql as fn(&str, &str) -> bool));
        let tests = window
            .tests
            .iter()
            .map(|place| (place, is_test_name as fn(&str, &str) -> bool));
        for (place, is_there) in code.chain(sql).chain(tests) {
            let (path, name) = split(place);
            match fs::read_to_string(root().join(path)) {
                Ok(text) if is_there(&text, name) => {}
                Ok(_) => findings.push(format!("{number}: no `{name}` in {path}")),
                Err(_) => findings.push(format!("{number}: no file {path}")),
            }
        }
    }
    assert_none("places of crash windows", &findings);
}

#[test]
fn a_window_needs_three_files_at_most() {
    let mut findings = Vec::new();
    for window in windows() {
        let places = window.code.iter().chain(window.sql).chain(window.tests);
        let paths: BTreeSet<&str> = places.map(|place| split(place).0).collect();
        if paths.len() > FILES_PER_WINDOW_MAX {
            findings.push(format!("{}: {paths:?}", window.number));
        }
    }
    assert_none("windows with too many files", &findings);
}

fn split(place: &'static str) -> (&'static str, &'static str) {
    place.split_once('#').expect("places are path#name")
}

/// A crash point, a function or a constant.
fn is_code(text: &str, name: &str) -> bool {
    [
        format!("\"{name}\""),
        format!("fn {name}("),
        format!("const {name}:"),
    ]
    .iter()
    .any(|form| text.contains(form))
}

/// The function that runs the statement, or a named part of a statement in a file of its own.
fn is_sql(text: &str, name: &str) -> bool {
    let is_part = text
        .lines()
        .any(|line| line.starts_with(&format!("{name} as (")));
    is_part || text.contains(&format!("fn {name}("))
}

/// A plain function, or an entry of the macro that makes one test per crash point.
fn is_test_name(text: &str, name: &str) -> bool {
    text.contains(&format!("async fn {name}(")) || text.contains(&format!("    {name}: "))
}

#[test]
fn every_point_of_a_window_is_in_its_service() {
    let mut findings = Vec::new();
    for window in windows() {
        let number = window.number;
        if let Points::None(reason) = window.points {
            assert!(!reason.is_empty(), "window {number} gives no reason");
        }
        for (service, point) in window.points() {
            let prefix = point.split('.').next().unwrap_or_default();
            let shared = SHARED.iter().find(|(name, _)| *name == prefix);
            let folder = match shared {
                None => format!("services/{service}/"),
                Some((_, name)) => {
                    if !uses(service, name) {
                        findings.push(format!("{number}: {service} does not use {name}"));
                    }
                    format!("shared/{name}/")
                }
            };
            if !points_in(&folder).contains(*point) {
                findings.push(format!("{number}: no `{point}` in {folder}"));
            }
        }
    }
    assert_none("crash points of windows", &findings);
}

fn uses(service: &str, shared: &str) -> bool {
    let manifest = read(&format!("services/{service}/Cargo.toml"));
    manifest.contains(&format!("\n{shared}.workspace = true"))
}

#[test]
fn no_crash_point_is_without_a_window() {
    let known: BTreeSet<&str> = windows().flat_map(points_of).collect();
    let all = points_in("services/")
        .into_iter()
        .chain(points_in("shared/"));
    let unknown: Vec<String> = all.filter(|point| !known.contains(&**point)).collect();
    assert_none("crash points without a window", &unknown);
}

fn points_of(window: &'static Window) -> impl Iterator<Item = &'static str> {
    window.points().iter().map(|(_, point)| *point)
}

/// A test must arm every point by its name, so this fails if a point is renamed in the code only.
#[test]
fn every_point_is_armed_by_a_test() {
    let tests = files(&[".rs"])
        .into_iter()
        .filter(|file| is_test(&file.path));
    let armed: BTreeSet<String> = tests.flat_map(|file| literals(&file.text)).collect();
    let points: BTreeSet<&str> = windows().flat_map(points_of).collect();
    let unarmed = points.into_iter().filter(|point| !armed.contains(*point));
    let unarmed: Vec<String> = unarmed.map(str::to_owned).collect();
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
    sources.flat_map(|file| points(&file)).collect()
}

/// What is passed by name, and every literal that looks like a crash point.
fn points(file: &File) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for call in CALLS {
        for rest in file.text.split(call).skip(1) {
            found.extend(rest.split('"').next().map(str::to_owned));
        }
    }
    // Attributes of spans have names of the same form.
    let lines = file.text.lines().filter(|line| !line.contains("span.set("));
    let lines: Vec<&str> = lines.collect();
    let is_step = |step: &str| step.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let is_point = |text: &String| {
        text.split_once('.').is_some_and(|(prefix, step)| {
            PREFIXES.contains(&prefix) && !step.is_empty() && is_step(step)
        })
    };
    found.extend(literals(&lines.join("\n")).into_iter().filter(is_point));
    found
}
