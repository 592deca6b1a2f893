//! Words that the glossary retires are not used.

use crate::repository::{assert_none, files, read};

const GLOSSARY: &str = "docs/glossary.md";
/// Places that must name retired words: the glossary itself, the map from old to new, and this test.
const ALLOWED: [&str; 3] = [GLOSSARY, "CHANGELOG.md", "tidy/src/words.rs"];
/// A stable code of the API, older than the glossary.
const ALLOWED_CODE: &str = "not_the_culprit";
/// Filler words that make a sentence vague. They are banned in prose and in names alike.
const VAGUE: [&str; 8] = [
    "whoever",
    "somebody",
    "nobody",
    "anybody",
    "for ever",
    "is told",
    "is at it",
    "are at it",
];

#[test]
fn retired_words_are_absent() {
    let retired = retired();
    assert!(retired.len() > 15, "the glossary retires {retired:?}");
    let endings = [
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
        ".toml",
        ".env",
        ".env.example",
        "Dockerfile",
    ];
    let mut findings = Vec::new();
    for file in files(&endings) {
        if ALLOWED.contains(&&*file.path) {
            continue;
        }
        for (number, line) in file.text.lines().enumerate() {
            let text = spaced(&line.replace(ALLOWED_CODE, ""));
            let words = retired.iter().map(String::as_str).chain(VAGUE);
            for word in words.filter(|word| text.contains(&format!(" {word} "))) {
                findings.push(format!("{}:{}: {word}", file.path, number + 1));
            }
        }
    }
    assert_none("retired words (see docs/glossary.md)", &findings);
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
