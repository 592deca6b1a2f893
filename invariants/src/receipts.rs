//! Compares the receipt service's log with the captured payments.

use std::collections::BTreeMap;

use sqlx::PgPool;

use crate::query::per_order;

/// Receipts that are not sent yet.
pub(crate) const PENDING: &str = "select count(*) from receipts where status = 'pending'";

/// Direct charges are not announced on the topic, so they have no receipt.
const CAPTURED: &str = "select order_id::text, count(*) from payments
     where charge_id is not null and principal_id is null group by 1";

const LOGGED: &str = "select order_id::text, count(*) from receipts group by 1";

/// Orders that do not have exactly one receipt for each capture.
pub(crate) async fn differences(payment: &PgPool, receipt: &PgPool) -> anyhow::Result<Vec<String>> {
    let captured = per_order(payment, CAPTURED).await?;
    let logged = per_order(receipt, LOGGED).await?;
    let mut orders: Vec<&String> = captured.keys().chain(logged.keys()).collect();
    orders.sort_unstable();
    orders.dedup();
    let count = |of: &BTreeMap<String, i64>, order| of.get(order).copied().unwrap_or_default();
    let differences = orders.into_iter().filter_map(|order| {
        let (captured, logged) = (count(&captured, order), count(&logged, order));
        let differ = captured != logged || logged > 1;
        differ.then(|| format!("{order}: captured {captured} times, {logged} receipts"))
    });
    Ok(differences.collect())
}

#[cfg(test)]
mod tests {
    use receipt::domain::status::Status;

    use super::*;
    use crate::status_literals::assert_known;

    #[test]
    fn status_literals_exist_in_the_receipt_service() {
        assert_known(PENDING, &[Status::Pending.as_str()]);
    }

    #[test]
    fn sent_is_the_status_of_a_receipt() {
        assert_eq!(endpoints::status::RECEIPT_SENT, Status::Sent.as_str());
    }
}
