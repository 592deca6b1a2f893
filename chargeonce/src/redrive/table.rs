//! Prints parked messages and redrive results.

use std::fmt::Write as _;

use serde_json::Value;

/// Longest cause in a list; `show` prints all of it.
const CAUSE_CHARS_MAX: usize = 60;
const COLUMNS: [&str; 8] = [
    "SERVICE",
    "ID",
    "ORDER",
    "TYPE",
    "STATE",
    "TRIES",
    "PARKED AT",
    "CAUSE",
];

/// One line per message, each column as wide as its longest cell.
pub(super) fn list(rows: &[Value]) -> String {
    let mut lines = vec![COLUMNS.map(str::to_owned)];
    lines.extend(rows.iter().map(line));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|column| width(column).unwrap_or_default())
        .collect();
    let mut table = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        let _ = writeln!(table, "{}", cells.join("  ").trim_end());
    }
    table
}

/// Whether this message failed itself. Otherwise it waits behind a failed one.
pub(super) fn is_failed(row: &Value) -> bool {
    row["failed"] == true
}

fn line(row: &Value) -> [String; 8] {
    let state = match is_failed(row) {
        true => "failed",
        false => "waiting",
    };
    let cause = text(&row["cause"]).replace('\n', " ");
    let mut short: String = cause.chars().take(CAUSE_CHARS_MAX).collect();
    if short.len() < cause.len() {
        short.push('…');
    }
    // Without fractions of a second.
    let parked_at: String = text(&row["parked_at"]).chars().take(19).collect();
    [
        text(&row["service"]),
        text(&row["id"]),
        text(&row["order_id"]),
        text(&row["event_type"]),
        state.to_owned(),
        text(&row["tries"]),
        parked_at,
        short,
    ]
}

/// All of one message, one field per line.
pub(super) fn message(message: &Value) -> String {
    let mut page = String::new();
    for name in [
        "id",
        "consumer_group",
        "order_id",
        "message_id",
        "event_type",
        "failed",
        "tries",
        "parked_at",
        "partition",
        "offset",
        "cause",
        "key",
    ] {
        let _ = writeln!(page, "{name:<15} {}", text(&message[name]));
    }
    let headers = message["headers"].as_array().into_iter().flatten();
    for header in headers {
        let _ = writeln!(
            page,
            "header          {}: {}",
            text(&header[0]),
            text(&header[1])
        );
    }
    let _ = writeln!(page, "payload         {}", text(&message["payload"]));
    page
}

/// The result of one redrive.
pub(super) fn result(result: &Value) -> String {
    let name = format!("{} {}", text(&result["service"]), text(&result["id"]));
    let failed = &result["failed"];
    match failed.is_null() {
        true => format!("{name}: {}", counts(result)),
        false => format!(
            "{name}: {}; {} failed again: {}",
            counts(result),
            text(&failed["id"]),
            text(&failed["cause"])
        ),
    }
}

pub(super) fn counts(result: &Value) -> String {
    let number = |name: &str| result[name].as_u64().unwrap_or_default();
    if number("handled") + number("dropped") + number("left") == 0 {
        return "nothing left to process".to_owned();
    }
    format!(
        "{} processed, {} skipped, {} still parked",
        number("handled"),
        number("dropped"),
        number("left")
    )
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn list_has_one_line_per_message_and_aligned_columns() {
        let row = |id: i64, failed: bool| {
            json!({"service": "payment", "id": id, "order_id": null, "event_type": "order.placed",
                   "failed": failed, "tries": 5, "parked_at": "2026-01-31T12:00:00.123Z",
                   "cause": "line\nbreak ".repeat(20)})
        };
        let table = list(&[row(1, true), row(1_000, false)]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3);
        let column = lines[0].find("ORDER").unwrap();
        assert!(lines[1][column..].starts_with('–') && lines[2][column..].starts_with('–'));
        assert!(lines[1].contains("failed") && lines[2].contains("waiting"));
        assert!(lines[1].ends_with('…'));
    }

    #[test]
    fn result_names_the_message_that_failed_again() {
        let done = json!({"service": "order", "id": 7, "handled": 2, "dropped": 0, "left": 0});
        assert_eq!(
            result(&done),
            "order 7: 2 processed, 0 skipped, 0 still parked"
        );
        let failed = json!({"service": "order", "id": 7, "handled": 0, "dropped": 0, "left": 1,
                            "failed": {"id": 7, "cause": "no"}});
        assert!(result(&failed).ends_with("7 failed again: no"));
    }
}
