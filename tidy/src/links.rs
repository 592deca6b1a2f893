//! Every link between documents leads to an existing file and heading.

use crate::repository::{File, assert_none, files, read, root};

#[test]
fn links_between_documents_work() {
    let mut dead = Vec::new();
    let mut seen = 0;
    for file in files(&[".md"]) {
        for target in links(&file.text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            seen += 1;
            if let Some(reason) = why_dead(&file, target) {
                dead.push(format!("{}: {target} ({reason})", file.path));
            }
        }
    }
    assert!(seen > 30, "only {seen} links were found");
    assert_none("dead links", &dead);
}

/// Why a link does not work, or `None` if it does.
fn why_dead(file: &File, target: &str) -> Option<String> {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let linked = match path {
        "" => file.path.clone(),
        path => {
            let dir = file.path.rsplit_once('/').map_or("", |(dir, _)| dir);
            let full = root().join(dir).join(path);
            let Ok(full) = full.canonicalize() else {
                return Some("no such file".to_owned());
            };
            let Ok(inside) = full.strip_prefix(root()) else {
                return Some("outside the repository".to_owned());
            };
            inside.to_string_lossy().into_owned()
        }
    };
    let is_missing = !anchor.is_empty()
        && linked.ends_with(".md")
        && !headings(&read(&linked)).iter().any(|it| it == anchor);
    is_missing.then(|| format!("no heading #{anchor} in {linked}"))
}

/// Placeholders for text that is not written yet.
const PLACEHOLDERS: [&str; 5] = ["TODO", "FIXME", "TBD", "TRANSCRIPT", "TRANSCRIPTS"];

#[test]
fn documents_have_no_placeholders() {
    let mut findings = Vec::new();
    for file in files(&[".md"]) {
        for (number, line) in file.text.lines().enumerate() {
            let words = line.split(|c: char| !c.is_ascii_alphabetic());
            let left = words.filter(|word| PLACEHOLDERS.contains(word));
            findings.extend(left.map(|word| format!("{}:{}: {word}", file.path, number + 1)));
        }
    }
    assert_none("placeholders", &findings);
}

/// The targets of `[text](target)` outside code blocks.
fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (index, block) in text.split("```").enumerate() {
        if index % 2 == 1 {
            continue;
        }
        for part in block.split("](").skip(1) {
            if let Some((target, _)) = part.split_once(')') {
                found.push(target);
            }
        }
    }
    found
}

/// The anchors of headings, as repository hosts make them.
fn headings(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (index, block) in text.split("```").enumerate() {
        if index % 2 == 1 {
            continue;
        }
        let lines = block.lines().filter(|line| line.starts_with('#'));
        found.extend(lines.map(|line| anchor(line.trim_start_matches('#').trim())));
    }
    found
}

fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn links_and_headings_are_found() {
    let text = "# A `b`, c\n[x](y.md#z)\n```\n[no](link)\n```\n[w](v)";
    assert_eq!(links(text), ["y.md#z", "v"]);
    assert_eq!(headings(text), ["a-b-c"]);
}
