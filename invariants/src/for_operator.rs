//! What only an operator can settle. It is not a violation: the services have done what they may do
//! automatically, and wait for a decision.

use std::collections::BTreeMap;

use sqlx::PgPool;

use crate::query::{count, lines, per_order};
use crate::{Databases, Severity, Violation};

/// Payment or fulfilment knows an order that the order service does not have: its database was restored
/// to an older state.
pub const ORDER_LOST: &str = "O1 order is lost";
/// A charge in the provider's books that no attempt explains.
pub const CHARGE_UNEXPLAINED: &str = "O2 charge is unexplained";
/// A refund that the provider will not complete.
pub const REFUND_FAILED: &str = "O3 refund has failed";
/// A message that a service cannot process.
pub const MESSAGE_PARKED: &str = "O4 message is parked";
/// A mail that is held, was rejected, or may have been delivered.
pub const MAIL_WAITS: &str = "O5 mail waits";

/// Direct charges belong to no order.
const PAID_ORDERS: &str = "select order_id::text,
            string_agg(format('attempt %s %s, %s %s', attempt, status, amount, currency), '; '
                       order by attempt)
     from payments where principal_id is null group by 1";
const DECIDED_ORDERS: &str = "select order_id::text, status from shipments";
const ORDERS: &str = "select id::text, 1::bigint from orders";

const OPEN_CHARGES: &str =
    "select format('%s: %s %s for %s', charge_id, amount, currency, reference)
     from unexplained_charges where status = 'open' order by first_seen_at";
const FAILED_REFUNDS: &str =
    "select format('%s of order %s: %s', charge_id, order_id, failure_code)
     from refunds where status = 'failed' order by charge_id";
const PARKED: &str = "select count(*) from parked_messages";
const WAITING_MAILS: &str = "select format('%s %s', count(*), status) from receipts
     where status in ('held', 'failed', 'unknown') group by status order by status";

/// Everything that waits for an operator.
pub async fn for_operator(databases: &Databases) -> anyhow::Result<Vec<Violation>> {
    let mut found = Vec::new();
    for (order, detail) in lost_orders(databases).await? {
        let detail = format!("{order}: {detail}");
        found.push((ORDER_LOST, Some(order), detail));
    }
    for charge in lines(&databases.payment, OPEN_CHARGES).await? {
        found.push((CHARGE_UNEXPLAINED, None, charge));
    }
    for refund in lines(&databases.payment, FAILED_REFUNDS).await? {
        found.push((REFUND_FAILED, None, refund));
    }
    for (service, pool) in [
        ("order", &databases.order),
        ("payment", &databases.payment),
        ("fulfilment", &databases.fulfilment),
        ("receipt", &databases.receipt),
    ] {
        let parked = count(pool, PARKED).await?;
        if parked > 0 {
            found.push((MESSAGE_PARKED, None, format!("{parked} in {service}")));
        }
    }
    for mails in lines(&databases.receipt, WAITING_MAILS).await? {
        found.push((MAIL_WAITS, None, mails));
    }
    let violation = |(invariant, order_id, detail)| Violation {
        severity: Severity::ForOperator,
        invariant,
        detail,
        order_id,
    };
    Ok(found.into_iter().map(violation).collect())
}

/// Orders that only other services know, and what these know.
pub(crate) async fn lost_orders(databases: &Databases) -> anyhow::Result<BTreeMap<String, String>> {
    // Effects are read before their causes, so that an order placed between the reads does not look lost.
    let mut lost = texts(&databases.payment, PAID_ORDERS).await?;
    for (order, decision) in texts(&databases.fulfilment, DECIDED_ORDERS).await? {
        let known = lost.entry(order).or_insert_with(|| "no attempt".to_owned());
        known.push_str(", ");
        known.push_str(&decision);
    }
    if lost.is_empty() {
        return Ok(lost);
    }
    let known = per_order(&databases.order, ORDERS).await?;
    lost.retain(|order, _| !known.contains_key(order));
    Ok(lost)
}

/// A text per order.
async fn texts(pool: &PgPool, query: &'static str) -> anyhow::Result<BTreeMap<String, String>> {
    use anyhow::Context as _;
    let rows: Vec<(String, String)> = sqlx::query_as(query).fetch_all(pool).await.context(query)?;
    Ok(rows.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use payment::domain::RefundStatus;
    use receipt::domain::status::Status;

    use super::*;
    use crate::status_literals::assert_known;

    #[test]
    fn status_literals_exist_in_the_services() {
        assert_known(FAILED_REFUNDS, &[RefundStatus::Failed.as_str()]);
        let waiting: Vec<&str> = Status::ALL
            .into_iter()
            .filter(|status| status.waits_for_operator())
            .map(Status::as_str)
            .collect();
        assert_known(WAITING_MAILS, &waiting);
        for status in waiting {
            assert!(WAITING_MAILS.contains(status), "{status}");
        }
    }
}
