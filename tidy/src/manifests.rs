//! Every package has its metadata.

use crate::repository::{assert_none, files, read, root};

/// Fields that each manifest must have. Most inherit their value from the workspace.
const FIELDS: [&str; 6] = [
    "description",
    "version",
    "edition",
    "rust-version",
    "license",
    "publish",
];

#[test]
fn manifests_have_their_metadata() {
    let mut missing = Vec::new();
    for file in files(&["Cargo.toml"]) {
        if file.path == "Cargo.toml" {
            continue;
        }
        let package = file.text.split("\n[").next().unwrap_or_default();
        let has = |field: &str| {
            let lines = package.lines();
            lines
                .filter_map(|line| line.strip_prefix(field))
                .any(|rest| rest.starts_with([' ', '.']))
        };
        for field in FIELDS.into_iter().filter(|field| !has(field)) {
            missing.push(format!("{}: {field}", file.path));
        }
        let folder = file.path.trim_end_matches("Cargo.toml");
        if root().join(folder).join("README.md").exists() && !has("readme") {
            missing.push(format!("{}: readme", file.path));
        }
    }
    assert_none("missing in manifests", &missing);
}

/// Without doctests an example would never run.
#[test]
fn crates_without_doctests_have_no_examples() {
    let sources = files(&[".rs", "README.md"]);
    let mut examples = Vec::new();
    for manifest in files(&["Cargo.toml"]) {
        if !manifest.text.contains("doctest = false") {
            continue;
        }
        let folder = manifest.path.trim_end_matches("Cargo.toml");
        let own = sources.iter().filter(|file| file.path.starts_with(folder));
        for file in own.filter(|file| has_example(&file.text)) {
            examples.push(file.path.clone());
        }
    }
    assert_none("examples in a crate with `doctest = false`", &examples);
}

/// Whether a doc comment or a README opens a block that rustdoc would run.
fn has_example(text: &str) -> bool {
    let docs = |line: &str| {
        let line = line.trim_start();
        let comment = line.strip_prefix("//!").or(line.strip_prefix("///"));
        comment.unwrap_or(line).trim().to_owned()
    };
    let fences = text
        .lines()
        .map(docs)
        .filter(|line| line.starts_with("```"));
    // Every second fence closes a block.
    fences
        .step_by(2)
        .any(|fence| matches!(&*fence, "```" | "```rust"))
}

/// The image's build reads the manifests of all members, so a member that is left out breaks it.
#[test]
fn images_are_built_from_every_member() {
    let manifest = read("Cargo.toml");
    let (_, members) = manifest.split_once("members = [").expect("no members");
    let (members, _) = members.split_once(']').expect("no end of the members");
    let ignored = read(".dockerignore");
    let mut missing = Vec::new();
    for member in members.split('"').skip(1).step_by(2) {
        let folder = member.trim_end_matches("/*");
        if !ignored.lines().any(|line| line == format!("!{folder}")) {
            missing.push(folder.to_owned());
        }
    }
    assert_none("missing in .dockerignore", &missing);
}
