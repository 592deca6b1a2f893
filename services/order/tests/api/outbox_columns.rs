//! Intake inserts its events itself, because intake is one statement. This test compares that
//! statement with the outbox crate, which owns the columns.

const PLACE_ORDERS_SQL: &str = include_str!("../../queries/place_orders.sql");

#[test]
fn intake_fills_the_columns_that_the_outbox_requires() {
    let (_, rest) = PLACE_ORDERS_SQL.split_once("insert into outbox (").unwrap();
    let (columns, rest) = rest.split_once(')').unwrap();
    assert_eq!(items(columns), outbox::COLUMNS);

    // The columns of its input have the same names, except for the order id.
    let (_, rest) = rest.split_once("select ").unwrap();
    let (values, _) = rest.split_once("from input").unwrap();
    let expected = outbox::COLUMNS.map(|column| match column {
        "subject" => "order_id",
        same => same,
    });
    assert_eq!(items(values), expected);
}

fn items(list: &str) -> Vec<&str> {
    list.split(',').map(str::trim).collect()
}
