//! Every package has its metadata.

use crate::repository::{assert_none, files, root};

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
