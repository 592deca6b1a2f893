//! Parked messages and results as people read them.

use std::fmt::Write as _;

use serde_json::Value;

/// Longest cause in a list; `show` has all of it.
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

/// One line for each message, columns as wide as they need to be.
pub(super) fn of(rows: &[Value]) -> String {
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

fn line(row: &Value) -> [String; 8] {
    let state = match row["failed"] == true {
        true => "culprit",
        false => "queued",
    };
    let cause = text(&row["cause"]).replace('\n', " ");
    let mut short: String = cause.chars().take(CAUSE_CHARS_MAX).collect();
    if short.len() < cause.len() {
        short.push('…');
    }
    // Seconds are enough for people.
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

/// All of one message, one part in a line.
pub(super) fn one(message: &Value) -> String {
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

/// What a redrive came to.
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
        return "nothing was left to handle".to_owned();
    }
    format!(
        "{} handled, {} needed nothing, {} still parked",
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
    fn a_list_has_a_line_for_each_message_and_columns_that_line_up() {
        let row = |id: i64, culprit: bool| {
            json!({"service": "payment", "id": id, "order_id": null, "event_type": "order.placed",
                   "failed": culprit, "tries": 5, "parked_at": "2026-01-31T12:00:00.123Z",
                   "cause": "line\nbreak ".repeat(20)})
        };
        let table = of(&[row(1, true), row(1_000, false)]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3);
        let column = lines[0].find("ORDER").unwrap();
        assert!(lines[1][column..].starts_with('–') && lines[2][column..].starts_with('–'));
        assert!(lines[1].contains("culprit") && lines[2].contains("queued"));
        assert!(lines[1].ends_with('…'));
    }

    #[test]
    fn a_result_says_what_failed_again() {
        let done = json!({"service": "order", "id": 7, "handled": 2, "dropped": 0, "left": 0});
        assert_eq!(
            result(&done),
            "order 7: 2 handled, 0 needed nothing, 0 still parked"
        );
        let failed = json!({"service": "order", "id": 7, "handled": 0, "dropped": 0, "left": 1,
                            "failed": {"id": 7, "cause": "no"}});
        assert!(result(&failed).ends_with("7 failed again: no"));
    }
}
