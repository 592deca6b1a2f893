//! Turns the order service's intake statement into a pgbench script: each array parameter becomes an
//! expression with the values of one order.

use anyhow::{Context, ensure};

const INTAKE_SQL: &str = include_str!("../../../../services/order/queries/place_orders.sql");
/// A random number per order. All values that must be unique, or equal in two places, follow from it.
const PRELUDE: &str = "\\set n random(1, 9223372036854775807)\n";
/// Time first, then random bits, like the service's UUIDv7: new rows go to the end of the index.
const ORDER_ID: &str = "array[(lpad(to_hex((extract(epoch from now()) * 1000)::bigint), 12, '0') \
    || substr(md5(:n::text), 13))::uuid]";
const HASH: &str = "array[sha256('x')]";

/// One expression per parameter, in the statement's order, as large as the service's values.
/// A colon in text has a space after it: pgbench reads `:name` as a variable.
const PARAMETERS: [&str; 30] = [
    ORDER_ID,
    "array['acme']",                      // principal id
    "array['POST /orders']",              // route
    "array['pgbench-' || md5(:n::text)]", // key
    "array[:n::bigint]",                  // advisory lock id
    HASH,                                 // fingerprint
    "array[null::text]",                  // reference
    "array['cust-88']",                   // customer id
    "array[5000]",                        // amount
    "array['USD']",                       // currency
    "array['pm_card_ok']",                // payment method
    HASH,                                 // content hash
    "array[gen_random_uuid()::text]",     // correlation id
    "array[201]",                         // response status
    "array['[[\"content-type\", \"application/json\"], [\"location\", \"/orders/0194d2b5-6c1e-7c3a-9d2f-3b1a5e8f7c60\"]]']",
    "array[convert_to(rpad('{', 250, 'x'), 'UTF8')]", // response body
    "array[gen_random_uuid()]",                       // event id
    "array['order.placed']",                          // event type
    "array['order']",                                 // event source
    "array[rpad('{', 600, 'x')]",                     // event payload
    "array['00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01']", // traceparent
    "array[(:n::bigint % 16)::smallint]",             // outbox shard
    ORDER_ID,
    "array[1]",        // line
    "array['SKU-99']", // sku
    "array[2]",        // quantity
    "array[2500]",     // unit price
    "86400",           // key window in seconds
    "2",               // format version of the response
    "'placed'",        // status of a new order
];

/// The script for one order per transaction.
pub(crate) fn intake() -> anyhow::Result<String> {
    Ok(format!("{PRELUDE}{}", script_of(INTAKE_SQL, &PARAMETERS)?))
}

/// Replaces each `$n` by its expression and removes comments: a `$1` in a comment is not a parameter.
fn script_of(sql: &str, parameters: &[&str]) -> anyhow::Result<String> {
    let statement = sql
        .lines()
        .map(|line| line.split("--").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n");
    let mut script = String::with_capacity(statement.len() * 2);
    let mut used = vec![false; parameters.len()];
    let mut rest = statement.as_str();
    while let Some((before, after)) = rest.split_once('$') {
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: usize = after[..digits]
            .parse()
            .context("a `$` in the intake SQL is not a parameter")?;
        let index = number
            .checked_sub(1)
            .filter(|index| *index < parameters.len());
        let index = index.with_context(|| {
            format!("the intake SQL has a parameter ${number} without an expression: add it to PARAMETERS")
        })?;
        script.push_str(before);
        script.push_str(parameters[index]);
        used[index] = true;
        rest = &after[digits..];
    }
    script.push_str(rest);
    ensure!(
        used.iter().all(|used| *used),
        "the intake SQL has fewer parameters than PARAMETERS: remove the unused ones"
    );
    Ok(format!("{};\n", script.trim().trim_end_matches(';')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_order_service() {
        let placed = format!("'{}'", order::domain::Status::Placed);
        let format = idempotency::StoredResponse::VERSION.to_string();
        assert_eq!(PARAMETERS[28..], [format, placed]);
        let event_type = format!("array['{}']", events::EventType::OrderPlaced.as_str());
        assert_eq!(PARAMETERS[17], event_type);
        let shard = format!("array[(:n::bigint % {})::smallint]", outbox::SHARDS);
        assert_eq!(PARAMETERS[21], shard);
    }

    #[test]
    fn every_occurrence_of_a_parameter_is_replaced() {
        let names: Vec<String> = (1..=11).map(|number| format!("<{number}>")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let sql = "-- $1: ids\nselect $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $1 -- $12\n";
        let script = script_of(sql, &names).unwrap();
        assert_eq!(
            script,
            "select <1>, <2>, <3>, <4>, <5>, <6>, <7>, <8>, <9>, <10>, <11>, <1>;\n"
        );
    }

    #[test]
    fn missing_or_extra_parameter_is_an_error() {
        assert!(script_of("select $1, $2", &["a"]).is_err());
        assert!(script_of("select $1", &["a", "b"]).is_err());
    }

    #[test]
    fn intake_statement_becomes_a_script() {
        let script = intake().unwrap();
        assert!(!script.contains('$') && script.ends_with(";\n"), "{script}");
        // pgbench reads a colon before a letter as a variable; `n` is the only one.
        let script = script.replace(":n::", "");
        let bytes = script.as_bytes();
        let variable = bytes
            .windows(3)
            .any(|at| at[0] != b':' && at[1] == b':' && at[2].is_ascii_alphanumeric());
        assert!(!variable, "{script}");
    }
}
