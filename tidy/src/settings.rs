//! docs/settings.md lists every setting, with the default that the code has, and nothing else.

use std::collections::BTreeMap;

use crate::repository::{assert_none, files, is_test, read};

const DOCUMENT: &str = "docs/settings.md";

#[test]
fn every_setting_is_documented_with_its_default() {
    let sections = sections();
    let mut findings = Vec::new();
    let mut seen = 0;
    for section in &sections {
        let mut known = BTreeMap::new();
        for path in &section.sources {
            known.extend(settings(&read(path)).map(|it| (it.name, it.default)));
        }
        seen += known.len();
        findings.extend(differences(&known, &section.documented));
    }
    assert!(seen > 30, "only {seen} settings were found");
    assert_none(DOCUMENT, &findings);
}

#[test]
fn every_file_with_settings_has_a_section() {
    let sections = sections();
    let covered: Vec<&str> = sections
        .iter()
        .flat_map(|section| section.sources.iter().map(String::as_str))
        .collect();
    let mut missing = Vec::new();
    for file in files(&[".rs"]) {
        let is_covered =
            is_test(&file.path) || file.path.starts_with("tidy/") || covered.contains(&&*file.path);
        if !is_covered && settings(&file.text).next().is_some() {
            missing.push(file.path);
        }
    }
    assert_none("files whose settings are not documented", &missing);
}

/// A part of the document, and the files whose settings it lists.
struct Section {
    sources: Vec<String>,
    documented: BTreeMap<String, String>,
}

/// The parts that name their sources: `<!-- source: path path -->`.
fn sections() -> Vec<Section> {
    let text = read(DOCUMENT);
    let parts = text.split("<!-- source: ").skip(1);
    let section = |part: &str| {
        let (sources, rest) = part.split_once(" -->").unwrap_or_default();
        let rows = rest.split("\n## ").next().unwrap_or_default();
        Section {
            sources: sources.split_whitespace().map(str::to_owned).collect(),
            documented: documented(rows),
        }
    };
    parts.map(section).collect()
}

fn differences(
    known: &BTreeMap<String, Option<String>>,
    documented: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, default) in known {
        match (documented.get(name), default) {
            (None, _) => findings.push(format!("{name} is not documented")),
            (Some(text), Some(default)) if text != default => {
                findings.push(format!(
                    "{name}: documented as {text}, but the default is {default}"
                ));
            }
            _ => {}
        }
    }
    let gone = documented.keys().filter(|name| !known.contains_key(*name));
    findings.extend(gone.map(|name| format!("{name} is documented but does not exist")));
    findings
}

struct Setting {
    name: String,
    /// `None` if it is not a literal.
    default: Option<String>,
}

/// The clap arguments that have an environment variable.
fn settings(source: &str) -> impl Iterator<Item = Setting> {
    source.split("env = \"").skip(1).filter_map(|rest| {
        let (name, rest) = rest.split_once('"')?;
        let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            return None;
        }
        // Up to the end of the attribute.
        let attribute = rest.split(")]").next().unwrap_or_default();
        Some(Setting {
            name: name.to_owned(),
            default: default(attribute),
        })
    })
}

fn default(attribute: &str) -> Option<String> {
    if let Some((_, rest)) = attribute.split_once("default_value = \"") {
        return rest.split_once('"').map(|(value, _)| value.to_owned());
    }
    let (_, rest) = attribute.split_once("default_value_t = ")?;
    let value: String = rest.split([',', ')', '\n']).next()?.replace('_', "");
    let factors: Option<Vec<u64>> = value.split('*').map(|it| it.trim().parse().ok()).collect();
    Some(factors?.iter().product::<u64>().to_string())
}

/// Name and default of each row: `| NAME | default | … |`.
fn documented(rows: &str) -> BTreeMap<String, String> {
    let rows = rows.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split('|');
        let name = cells.next()?.trim().trim_end_matches('`').to_owned();
        let default = cells.next()?.trim().trim_matches('`').to_owned();
        Some((name, default))
    });
    rows.collect()
}

#[test]
fn settings_are_read_with_their_defaults() {
    let source = "#[arg(long, env = \"A_MS\", default_value_t = 7 * 86_400)]\n\
                  #[arg(long, env = \"URL\", default_value = \"http://x\")]\n\
                  #[arg(long, env = \"B\")]";
    let read: Vec<_> = settings(source).map(|it| (it.name, it.default)).collect();
    let expected = [
        ("A_MS", Some("604800")),
        ("URL", Some("http://x")),
        ("B", None),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.map(str::to_owned)));
    assert_eq!(read, expected);
}
