//! Intake inserts its events itself, because intake is one statement. This ties that statement to the
//! outbox crate, which owns the columns.

use events::EventType;

const PLACE_ORDERS_SQL: &str = include_str!("../../queries/place_orders.sql");

/// The column list of `insert into outbox`, and the select list that fills it.
fn insert_into_outbox() -> (Vec<&'static str>, Vec<&'static str>) {
    let (_, rest) = PLACE_ORDERS_SQL.split_once("insert into outbox (").unwrap();
    let (columns, rest) = rest.split_once(')').unwrap();
    let (_, rest) = rest.split_once("select ").unwrap();
    let (values, _) = rest.split_once("from input").unwrap();
    let items = |list: &'static str| list.split(',').map(str::trim).collect();
    (items(columns), items(values))
}

#[test]
fn intake_fills_the_columns_that_the_outbox_requires() {
    let (columns, values) = insert_into_outbox();
    assert_eq!(columns, outbox::COLUMNS);
    assert_eq!(values.len(), outbox::COLUMNS.len(), "{values:?}");
}

#[test]
fn intake_writes_the_event_type_of_a_placed_order() {
    let (columns, values) = insert_into_outbox();
    let index = columns.iter().position(|name| *name == "event_type");
    let literal = format!("'{}'", EventType::OrderPlaced.as_str());
    assert_eq!(values[index.unwrap()], literal);
}
