//! docs/settings.md lists every setting, with the default that the code has, and nothing else.

use std::collections::BTreeMap;

use crate::repository::{assert_none, files, is_test, read};

const DOCUMENT: &str = "docs/settings.md";

#[test]
fn every_setting_is_documented_with_its_default() {
    let documented = documented();
    let mut known = BTreeMap::new();
    for file in files(&[".rs"]) {
        if !is_test(&file.path) {
            known.extend(settings(&file.text).map(|it| (it.name, it.default)));
        }
    }
    assert!(known.len() > 30, "only {} settings were found", known.len());
    let mut findings = Vec::new();
    for (name, default) in &known {
        match documented.get(name) {
            None => findings.push(format!("{name} is not documented")),
            Some(text) => findings.extend(
                default
                    .iter()
                    .filter(|default| text != *default)
                    .map(|default| format!("{name}: {text} is documented, {default} is true")),
            ),
        }
    }
    for name in documented.keys().filter(|name| !known.contains_key(*name)) {
        findings.push(format!("{name} is documented and does not exist"));
    }
    assert_none(DOCUMENT, &findings);
}

struct Setting {
    name: String,
    /// As far as it is a literal.
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
fn documented() -> BTreeMap<String, String> {
    let text = read(DOCUMENT);
    let rows = text.lines().filter_map(|line| {
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
