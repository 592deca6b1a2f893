//! Reads the tables of `docs/store-outages.md`, and the endpoints that must have a row there.

use std::collections::BTreeSet;

use anyhow::Context as _;
use serde_json::Value;

const DOCUMENT: &str = include_str!("../../../docs/store-outages.md");
/// The code that adds the common routes to every service.
const SERVICE_KIT_HTTP: &str = include_str!("../../../shared/service-kit/src/http.rs");
/// The code of the route that reports how long orders wait.
const SERVICE_KIT_PRESSURE: &str = include_str!("../../../shared/service-kit/src/pressure.rs");
/// In the source of a table of routes, everything after this exists only for tests.
const TESTS_ONLY: &str = "#[cfg(feature";
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// What the document says about one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Method and path.
    pub endpoint: &'static str,
    /// The status of its response while the store is unreachable.
    pub status_without_store: u16,
}

/// The rows under a heading of the document.
pub fn rows(heading: &str) -> anyhow::Result<Vec<Row>> {
    rows_of(DOCUMENT, heading)
}

fn rows_of(document: &'static str, heading: &str) -> anyhow::Result<Vec<Row>> {
    let heading = format!("\n## {heading}\n");
    let (_, section) = document
        .split_once(&heading)
        .context("the document has no such heading")?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let &[_, endpoint, _, status_without_store, ..] = cells.as_slice() else {
            anyhow::bail!("cells are missing: {row}");
        };
        Ok(Row {
            endpoint: endpoint.trim_matches('`'),
            status_without_store: status_without_store
                .parse()
                .with_context(|| format!("no status: {row}"))?,
        })
    })
    .collect()
}

/// The endpoints in a service's OpenAPI document.
pub fn openapi_endpoints(openapi: &Value) -> anyhow::Result<BTreeSet<String>> {
    let paths = openapi["paths"].as_object().context("no paths")?;
    let mut endpoints = BTreeSet::new();
    for (path, operations) in paths {
        let operations = operations.as_object().context("no operations")?;
        let methods = operations.keys();
        endpoints.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
    }
    Ok(endpoints)
}

/// The endpoints that every service with a table has and OpenAPI does not describe, read from the source code.
pub fn common_endpoints() -> BTreeSet<String> {
    let finish = SERVICE_KIT_HTTP
        .split("pub fn finish(")
        .nth(1)
        .unwrap_or_default();
    let mut endpoints = routes_in_source(finish);
    endpoints.extend(routes_in_source(SERVICE_KIT_PRESSURE));
    endpoints
}

/// The endpoints of a table of routes, read from its source code: a router does not list them.
pub fn routes_in_source(source: &str) -> BTreeSet<String> {
    let source = source.split(TESTS_ONLY).next().unwrap_or_default();
    let mut endpoints = BTreeSet::new();
    for route in source.split(".route(").skip(1) {
        // The last route ends with its function.
        let route = route.split("\n}").next().unwrap_or_default();
        let mut parts = route.splitn(3, '"');
        let (Some(path), Some(handlers)) = (parts.nth(1), parts.next()) else {
            continue;
        };
        let words = handlers.split(|it: char| !(it.is_alphanumeric() || "_(".contains(it)));
        let methods = words.filter_map(|word| word.split_once('(').map(|(name, _)| name));
        let methods = methods.filter(|name| METHODS.contains(name));
        endpoints.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
    }
    endpoints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_read_up_to_the_next_heading() {
        let document = "\n## One\n\n| endpoint | status_without_store |\n|---|---|\n| `GET /a` | b | 503 | c |\n\
                        \n## Two\n\n| `GET /b` | b | 200 | c |\n";
        let row = |endpoint, status_without_store| Row {
            endpoint,
            status_without_store,
        };
        assert_eq!(rows_of(document, "One").unwrap(), [row("GET /a", 503)]);
        assert_eq!(rows_of(document, "Two").unwrap(), [row("GET /b", 200)]);
        assert!(rows_of(document, "Three").is_err());
    }

    #[test]
    fn row_without_a_status_is_an_error() {
        let document = "\n## One\n| `GET /a` | b | some | c |\n";
        assert!(rows_of(document, "One").is_err());
    }

    #[test]
    fn every_method_of_a_route_is_an_endpoint() {
        let source = r#"
            Router::new()
                .route("/a/{id}", get(inspect::<H>).delete(discard::<H>))
                .route(
                    "/b",
                    post(handle),
                )
                .with_state(get_ready())
        }
        fn budget(get: u8) {}"#;
        let endpoints: Vec<String> = routes_in_source(source).into_iter().collect();
        assert_eq!(endpoints, ["DELETE /a/{id}", "GET /a/{id}", "POST /b"]);
    }

    #[test]
    fn common_endpoints_are_found() {
        let endpoints: Vec<String> = common_endpoints().into_iter().collect();
        let expected = [
            "GET /healthz",
            "GET /metrics",
            "GET /pressure",
            "GET /readyz",
        ];
        assert_eq!(endpoints, expected);
    }
}
