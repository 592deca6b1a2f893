//! Words that the glossary retires, and names that the changelog maps to new ones, are not used.

use std::collections::BTreeSet;

use crate::repository::{assert_none, files, read};

const GLOSSARY: &str = "docs/glossary.md";
const CHANGELOG: &str = "CHANGELOG.md";
/// Places that must name retired words: the glossary itself, the map from old to new, and this test.
const ALLOWED: [&str; 3] = [GLOSSARY, CHANGELOG, "tidy/src/words.rs"];
/// Filler words that make a sentence vague. They are banned in prose and in names alike.
const VAGUE: [&str; 9] = [
    "whoever",
    "somebody",
    "someone",
    "nobody",
    "anybody",
    "for ever",
    "is told",
    "is at it",
    "are at it",
];

/// Text files of the project.
const ENDINGS: [&str; 16] = [
    ".rs",
    ".sql",
    ".md",
    ".sh",
    ".py",
    ".go",
    ".yml",
    ".yaml",
    ".json",
    ".svg",
    ".html",
    ".js",
    ".toml",
    ".env",
    ".env.example",
    "Dockerfile",
];
/// Old names of the changelog that still name something else: they were retired in one place only.
const STILL_NAMES: [&str; 32] = [
    "/admin/parked",
    "/admin/payments",
    "/admin/receipts",
    "/admin/reconciliations",
    "Ask",
    "Payment",
    "Placement",
    "Problem",
    "Receipt",
    "Request",
    "RequestItem",
    "Status",
    "Topic",
    "Verdict",
    "batch_max",
    "charge.sending",
    "gateway",
    "idempotency_keys",
    "idempotency_outcomes_total",
    "lab",
    "ledger",
    "line",
    "operation",
    "outbox",
    "poll",
    "psp",
    "rebalance",
    "receipt_tries_total",
    "statistics",
    "status",
    "view",
    "within",
];

#[test]
fn retired_words_are_absent() {
    let retired = retired();
    assert!(retired.len() > 15, "the glossary retires {retired:?}");
    let findings = lines_with(|line| {
        let text = spaced(line);
        let words = retired.iter().map(String::as_str).chain(VAGUE);
        let found = words.filter(|word| text.contains(&format!(" {word} ")));
        found.map(str::to_owned).collect()
    });
    assert_none("retired words (see docs/glossary.md)", &findings);
}

#[test]
fn renamed_names_are_absent() {
    let renamed = renamed();
    assert!(renamed.len() > 50, "the changelog renames {renamed:?}");
    let is_left = |name: &&String| !STILL_NAMES.contains(&&***name);
    let findings = lines_with(|line| {
        let old = renamed.iter().filter(is_left);
        old.filter(|name| has_name(line, name)).cloned().collect()
    });
    assert_none("old names (see CHANGELOG.md)", &findings);
}

/// An entry that names nothing any more would let the old name come back.
#[test]
fn still_used_names_are_used() {
    let renamed = renamed();
    let used = lines_with(|line| {
        let names = STILL_NAMES.iter().filter(|name| has_name(line, name));
        names.map(|name| (*name).to_owned()).collect()
    });
    for name in STILL_NAMES {
        assert!(renamed.contains(name), "{name} is not in {CHANGELOG}");
        let is_used = used.iter().any(|line| line.ends_with(&format!(": {name}")));
        assert!(is_used, "{name} names nothing any more");
    }
}

/// Where `find` finds something, as `path:line: what`.
fn lines_with(find: impl Fn(&str) -> Vec<String>) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files(&ENDINGS) {
        if ALLOWED.contains(&&*file.path) {
            continue;
        }
        for (number, line) in file.text.lines().enumerate() {
            let found = find(line).into_iter();
            findings.extend(found.map(|what| format!("{}:{}: {what}", file.path, number + 1)));
        }
    }
    findings
}

/// The names in the column `old` of the changelog's tables: without the module of a Rust name and
/// without the table of a column.
fn renamed() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut has_old = false;
    for line in read(CHANGELOG).lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, kind, old, _, _] = cells[..] else {
            has_old = false;
            continue;
        };
        has_old |= old == "old";
        if has_old {
            let names = old.split('`').skip(1).step_by(2);
            let names = names.map(|name| name.rsplit("::").next().unwrap_or(name));
            found.extend(names.map(|name| match kind {
                "column" => name.rsplit('.').next().unwrap_or(name).to_owned(),
                _ => name.to_owned(),
            }));
        }
    }
    found
}

/// Whether the line has this name, and not only as a part of a longer one.
fn has_name(line: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(name).any(|(start, _)| {
        !line[..start].ends_with(is_part) && !line[start + name.len()..].starts_with(is_part)
    })
}

#[test]
fn names_are_found_whole() {
    assert!(has_name("use a::Loan;", "Loan"));
    assert!(!has_name("use a::Loans;", "Loan") && !has_name("bank_Loan", "Loan"));
}

/// What the third column of the glossary's tables lists, separated by commas. Words with a remark in
/// brackets are retired in one sense only, which a test cannot detect.
fn retired() -> Vec<String> {
    let text = read(GLOSSARY);
    let rows = text.lines().filter(|line| line.starts_with("| "));
    let cells = rows.filter_map(|line| line.split('|').nth(3));
    let words = cells.flat_map(|cell| cell.split(','));
    let words = words.map(|word| word.trim().trim_matches('`').to_lowercase());
    words
        .filter(|word| {
            let is_word = |c: char| c.is_alphanumeric() || c == ' ' || c == '_';
            !word.is_empty() && word.chars().all(is_word) && word != "instead of"
        })
        .collect()
}

/// The line in lower case, its words and the parts of its names separated by single spaces.
fn spaced(line: &str) -> String {
    let mut text = String::from(" ");
    let mut was_lower = false;
    for c in line.chars() {
        // `CamelCase` and `snake_case` are split into words.
        if c.is_uppercase() && was_lower {
            text.push(' ');
        }
        was_lower = c.is_lowercase();
        match c.is_alphanumeric() {
            true => text.extend(c.to_lowercase()),
            false => text.push(' '),
        }
    }
    text.push(' ');
    text.split_whitespace()
        .fold(String::from(" "), |text, word| text + word + " ")
}

#[test]
fn names_are_split_into_words() {
    assert_eq!(
        spaced("let x = CancelWish::new(is_told);"),
        " let x cancel wish new is told "
    );
}
