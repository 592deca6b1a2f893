//! The table of crash windows matches the code, the tests and ARCHITECTURE.md.

use std::collections::BTreeSet;
use std::fs;

use crash_windows::{Points, table, windows};

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
/// The services with crash points.
const SERVICES: [&str; 4] = ["order", "payment", "fulfilment", "receipt"];
/// The shared crates with crash points.
const SHARED: [&str; 2] = ["inbox", "outbox"];

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

/// Both ways: a window names no point that its service lacks, and no service has a point without a
/// window. A point of a shared crate belongs to every service that uses the crate.
#[test]
fn windows_name_every_point_of_every_service() {
    let mut named = BTreeSet::new();
    for window in windows() {
        if let Points::None(reason) = window.points {
            let number = window.number;
            assert!(!reason.is_empty(), "window {number} gives no reason");
        }
        let points = window.points().iter();
        named.extend(points.map(|(service, point)| (service.to_string(), point.to_string())));
    }
    let mut existing = BTreeSet::new();
    for service in SERVICES {
        let shared = SHARED.iter().filter(|name| uses(service, name));
        let folders = shared.map(|name| format!("shared/{name}/"));
        for folder in folders.chain([format!("services/{service}/")]) {
            let points = points_in(&folder).into_iter();
            existing.extend(points.map(|point| (service.to_owned(), point)));
        }
    }
    let unknown = existing.difference(&named).map(|pair| format!("{pair:?}"));
    assert_none("points without a window", &unknown.collect::<Vec<_>>());
    let missing = named.difference(&existing).map(|pair| format!("{pair:?}"));
    assert_none("points without code", &missing.collect::<Vec<_>>());
}

fn uses(service: &str, shared: &str) -> bool {
    let manifest = read(&format!("services/{service}/Cargo.toml"));
    manifest.contains(&format!("\n{shared}.workspace = true"))
}

#[test]
fn every_folder_with_points_belongs_to_a_service() {
    let all = points_in("services/").into_iter();
    let all: BTreeSet<String> = all.chain(points_in("shared/")).collect();
    let services = SERVICES.iter().map(|name| format!("services/{name}/"));
    let shared = SHARED.iter().map(|name| format!("shared/{name}/"));
    let searched = services.chain(shared).flat_map(|folder| points_in(&folder));
    assert_eq!(all, searched.collect());
}

/// A test of the window must arm each of its points by name, so this fails if a point is renamed in
/// the code only.
#[test]
fn every_point_is_armed_by_a_test_of_its_window() {
    let mut unarmed = Vec::new();
    for window in windows() {
        let paths: BTreeSet<&str> = window.tests.iter().map(|place| split(place).0).collect();
        let armed: BTreeSet<String> = paths
            .into_iter()
            .flat_map(|path| literals(&read(path)))
            .collect();
        let points: BTreeSet<&str> = window.points().iter().map(|(_, point)| *point).collect();
        let missing = points.into_iter().filter(|point| !armed.contains(*point));
        unarmed.extend(missing.map(|point| format!("{}: {point}", window.number)));
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
