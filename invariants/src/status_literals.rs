//! Reads the status literals of a query, so that tests can compare them with the services' enums.
//! The checker does not depend on the services, so without these tests a renamed status would silently
//! match no row.

/// Every quoted lower-case word, except the member names after `->>`.
pub(crate) fn literals(sql: &str) -> Vec<&str> {
    let parts: Vec<&str> = sql.split('\'').collect();
    // Quotes alternate: odd parts are inside quotes.
    let quoted = parts.iter().enumerate().skip(1).step_by(2);
    quoted
        .filter(|(index, _)| !parts[index - 1].trim_end().ends_with("->>"))
        .map(|(_, text)| *text)
        .filter(|text| text.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        .collect()
}

/// Fails if a query names a status that the service does not have, or names none at all.
pub(crate) fn assert_known(query: &str, known: &[&str]) {
    let used = literals(query);
    assert!(!used.is_empty(), "no status in {query}");
    for status in used {
        assert!(known.contains(&status), "{status:?} is unknown in {query}");
    }
}

#[test]
fn literals_are_read_from_a_query() {
    let query = "select format('%s is %s', id), line ->> 'sku' where status in ('paid', 'shipped')";
    assert_eq!(literals(query), ["paid", "shipped"]);
}
