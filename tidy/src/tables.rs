//! ARCHITECTURE.md says what bounds each table.

use crate::repository::{assert_none, files, read};

const DOCUMENT: &str = "ARCHITECTURE.md";
const HEADING: &str = "## What bounds each queue and table";

/// The tables that a migration creates. Partitions belong to their table.
fn tables(migration: &str) -> impl Iterator<Item = &str> {
    migration
        .lines()
        .filter_map(|line| line.trim().strip_prefix("create table "))
        .filter(|line| !line.contains(" partition of "))
        .map(|line| line.trim_start_matches("if not exists "))
        .filter_map(|line| line.split([' ', '(']).next())
}

#[test]
fn every_table_has_a_bound() {
    let document = read(DOCUMENT);
    let section = document.split(HEADING).nth(1).expect(HEADING);
    let section = section.split("\n## ").next().unwrap();
    let mut count = 0;
    let mut missing = Vec::new();
    for file in files(&[".sql"]) {
        if !file.path.starts_with("migrations/") {
            continue;
        }
        for table in tables(&file.text) {
            count += 1;
            if !section.contains(&format!("`{table}`")) {
                missing.push(format!("{}: {table}", file.path));
            }
        }
    }
    assert!(count > 10, "only {count} tables were found");
    assert_none("tables without a bound in ARCHITECTURE.md", &missing);
}

#[test]
fn tables_are_found_in_migrations() {
    let migration = "create table a (\n  id int\n);\n create table if not exists b(\n\
                     create table a_default partition of a default;\n-- create table c";
    let found: Vec<&str> = tables(migration).collect();
    assert_eq!(found, ["a", "b"]);
}
