//! A test's name says what holds, in at most 60 characters.

use crate::repository::{assert_none, files};

const NAME_LEN_MAX: usize = 60;

#[test]
fn test_names_are_short_and_plain() {
    let mut findings = Vec::new();
    let mut seen = 0;
    for file in files(&[".rs"]) {
        for name in tests(&file.text) {
            seen += 1;
            if name.len() > NAME_LEN_MAX {
                findings.push(format!("{}: {name} ({})", file.path, name.len()));
            }
            if name.contains("_s_") {
                findings.push(format!("{}: {name} has a possessive", file.path));
            }
        }
    }
    assert!(seen > 500, "only {seen} tests were found");
    assert_none("rename these tests", &findings);
}

/// The functions behind `#[test]` and `#[tokio::test…]`.
fn tests(source: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut is_test = false;
    for line in source.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some(rest) = line
            .strip_prefix("async fn ")
            .or_else(|| line.strip_prefix("fn "))
        {
            if is_test {
                found.extend(rest.split('(').next());
            }
            is_test = false;
        }
    }
    found
}
