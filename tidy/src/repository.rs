//! The files of the repository, and simple ways to read Rust source as text.

use std::fs;
use std::path::{Path, PathBuf};

/// Directories without files of the project, or with generated files only.
const SKIPPED: [&str; 4] = [".git", "target", ".sqlx", "node_modules"];

pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.canonicalize().unwrap()
}

/// One text file: its path from the root, and its text.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Every file with one of these endings, in the order of their paths.
pub(crate) fn files(endings: &[&str]) -> Vec<File> {
    let root = root();
    let mut found = Vec::new();
    collect(&root, &root, endings, &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!found.is_empty(), "no file ends with {endings:?}");
    found
}

fn collect(root: &Path, dir: &Path, endings: &[&str], found: &mut Vec<File>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !SKIPPED.contains(&&*name) {
                collect(root, &path, endings, found);
            }
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            let path_from_root = path.strip_prefix(root).unwrap();
            found.push(File {
                path: path_from_root.to_string_lossy().into_owned(),
                text: fs::read_to_string(&path).unwrap(),
            });
        }
    }
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Whether the file belongs to tests: a test binary, a test module, or the test-only crates.
pub(crate) fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.starts_with("tests/") || path.ends_with("/tests.rs")
}

/// The string literals of Rust source. Lines that are comments are skipped.
pub(crate) fn literals(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in source.lines() {
        let line = line.trim_start();
        if line.starts_with("//") {
            continue;
        }
        found.extend(line.split('"').skip(1).step_by(2).map(str::to_owned));
    }
    found
}

/// Fails with a list of all findings.
pub(crate) fn assert_none(what: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{what}:\n  {}", findings.join("\n  "));
}
