//! Queries of the payment service's tables.

use std::collections::BTreeMap;

use sqlx::PgPool;

use crate::query::per_order;

/// Attempts without an outcome.
pub(crate) const OPEN_ATTEMPTS: &str =
    "select count(*) from payments where status in ('pending', 'unknown')";

/// Refunds without an outcome.
pub(crate) const OPEN_REFUNDS: &str = "select count(*) from refunds where status <> 'refunded'";

/// The sum of direct charges, which belong to no order.
pub(crate) const CAPTURED_DIRECTLY: &str = "select coalesce(sum(amount), 0)::bigint from payments
     where status = 'captured' and principal_id is not null";

const CAPTURED: &str = "select order_id::text, amount from payments where status = 'captured'";

/// The captured amount per order.
pub(crate) async fn captured(payment: &PgPool) -> anyhow::Result<BTreeMap<String, i64>> {
    per_order(payment, CAPTURED).await
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use payment::domain::Status;

    use super::*;
    use crate::status_literals::{assert_known, literals};

    #[test]
    fn status_literals_exist_in_the_payment_service() {
        let known = Status::ALL.map(Status::as_str);
        for query in [OPEN_ATTEMPTS, CAPTURED_DIRECTLY, CAPTURED] {
            assert_known(query, &known);
        }
    }

    /// Refunds have no enum of their own; their statuses are those of the table's constraint.
    #[test]
    fn refund_literals_exist_in_the_table() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations/payment");
        let migrations = std::fs::read_dir(dir).unwrap().map(|entry| {
            let path = entry.unwrap().path();
            std::fs::read_to_string(path).unwrap()
        });
        let migrations: String = migrations.collect();
        let (_, table) = migrations.split_once("create table refunds").unwrap();
        let (table, _) = table.split_once("\ncreate ").unwrap_or((table, ""));
        assert_known(OPEN_REFUNDS, &literals(table));
    }
}
