//! Files, functions and the README stay short.

use crate::repository::{assert_none, files, read};

const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;
const README_WORDS_MAX: usize = 800;

#[test]
fn files_are_short() {
    let mut long = Vec::new();
    for file in files(&[".rs", ".sql", ".sh", ".py", ".go"]) {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            long.push(format!("{} has {lines} lines", file.path));
        }
    }
    assert_none("split these files", &long);
}

#[test]
fn functions_are_short() {
    let mut long = Vec::new();
    let mut seen = 0;
    for file in files(&[".rs"]) {
        for (name, lines) in functions(&file.text) {
            seen += 1;
            if lines > FUNCTION_LINES_MAX {
                long.push(format!("{}: fn {name} has {lines} lines", file.path));
            }
        }
    }
    assert!(seen > 1_000, "only {seen} functions were found");
    assert_none("split these functions", &long);
}

#[test]
fn readme_is_short() {
    let words = read("README.md").split_whitespace().count();
    assert!(words <= README_WORDS_MAX, "README.md has {words} words");
}

/// Name and length of each function. Relies on rustfmt: a body ends at the indentation of its `fn`.
fn functions(source: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = source.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else {
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let end_of_body = format!("{}}}", " ".repeat(indent));
        let rest = &lines[start..];
        // A declaration in a trait, or a body on one line, ends where its signature ends.
        let signature = rest.iter().position(|line| line.ends_with(['{', ';', '}']));
        if !signature.is_some_and(|last| rest[last].ends_with('{')) {
            continue;
        }
        if let Some(last) = rest.iter().position(|line| *line == end_of_body) {
            found.push((name, last + 1));
        }
    }
    found
}

fn function_name(line: &str) -> Option<String> {
    let mut rest = line.trim_start();
    // `pub(crate)`, `pub(super)`, `pub(in path)`.
    if let Some((_, after)) = rest.strip_prefix("pub(").and_then(|it| it.split_once(") ")) {
        rest = after;
    }
    for prefix in ["pub ", "const ", "async "] {
        rest = rest.strip_prefix(prefix).unwrap_or(rest);
    }
    let name = rest.strip_prefix("fn ")?;
    let end = name.find(['(', '<'])?;
    Some(name[..end].to_owned())
}

#[test]
fn function_lengths_are_counted() {
    let source = "trait T {\n    fn declared(\n        &self,\n    );\n}\nimpl A {\n    pub(crate) async fn one(\n        &self,\n    ) {\n        two();\n    }\n}\nfn two() {}\n";
    assert_eq!(functions(source), [("one".to_owned(), 5)]);
    let inside = "pub(in crate::a) fn one() {\n    two()\n}\n";
    assert_eq!(functions(inside), [("one".to_owned(), 3)]);
    let declaration =
        "trait A {\n    fn one(\n        &self,\n    ) -> B;\n    fn two() {\n    }\n}\n";
    assert_eq!(functions(declaration), [("two".to_owned(), 2)]);
}
