//! Queries of the payment service's tables.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use sqlx::PgPool;
use uuid::Uuid;

use crate::query::per_order;

/// Attempts without an outcome.
pub(crate) const OPEN_ATTEMPTS: &str =
    "select count(*) from payments where status in ('pending', 'unknown')";

/// Refunds without an outcome.
pub(crate) const OPEN_REFUNDS: &str =
    "select count(*) from refunds where status in ('pending', 'unknown')";

/// The sum of direct charges, which belong to no order.
pub(crate) const CAPTURED_DIRECTLY: &str = "select coalesce(sum(amount), 0)::bigint from payments
     where status = 'captured' and principal_id is not null";

/// Captured amounts by the reference that the provider knows.
const CAPTURED: &str = "select coalesce(provider_reference, order_id::text), amount
     from payments where status = 'captured'";

/// Charges that no attempt explains, by their reference, less what operators have refunded.
const UNEXPLAINED: &str = "select reference,
            coalesce(sum(amount) filter (where status <> 'refunded'), 0)::bigint
     from unexplained_charges where status <> 'explained' group by 1";

/// What the provider still keeps of each unexplained charge.
pub(crate) async fn unexplained(payment: &PgPool) -> anyhow::Result<BTreeMap<String, i64>> {
    per_order(payment, UNEXPLAINED).await
}

/// The captured amount per order.
pub(crate) async fn captured(payment: &PgPool) -> anyhow::Result<BTreeMap<String, i64>> {
    per_order(payment, CAPTURED).await
}

/// The rows of direct charges (attempt 0) among these ids.
const DIRECT: &str = "select coalesce(provider_reference, order_id::text)
     from payments where order_id = any($1) and attempt = 0";

/// The prefix of a direct charge's reference at the provider; its id follows.
const DIRECT_PREFIX: &str = "direct:";

/// Which of these references of the provider's books are direct charges.
pub(crate) async fn direct(
    payment: &PgPool,
    references: impl Iterator<Item = &str>,
) -> anyhow::Result<BTreeSet<String>> {
    let ids = references.filter_map(|reference| {
        let id = reference.strip_prefix(DIRECT_PREFIX).unwrap_or(reference);
        Uuid::parse_str(id).ok()
    });
    let ids: Vec<Uuid> = ids.collect();
    if ids.is_empty() {
        return Ok(BTreeSet::new());
    }
    let rows: Vec<String> = sqlx::query_scalar(DIRECT)
        .bind(ids)
        .fetch_all(payment)
        .await
        .context("reading direct charges")?;
    Ok(rows.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use payment::domain::{AttemptStatus, RefundStatus};

    use super::*;
    use crate::status_literals::assert_known;

    #[test]
    fn attempt_literals_exist_in_the_payment_service() {
        let known = AttemptStatus::ALL.map(AttemptStatus::as_str);
        for query in [OPEN_ATTEMPTS, CAPTURED_DIRECTLY, CAPTURED] {
            assert_known(query, &known);
        }
    }

    #[test]
    fn direct_charges_have_this_prefix() {
        let id = Uuid::from_u128(7);
        let reference = payment::domain::provider_key::direct_reference(id);
        assert_eq!(reference, format!("{DIRECT_PREFIX}{id}"));
    }

    #[test]
    fn endpoints_name_the_statuses_of_attempts() {
        use endpoints::status::{ATTEMPT_CAPTURED, ATTEMPT_PENDING, ATTEMPT_UNKNOWN};
        let statuses = [
            (ATTEMPT_PENDING, AttemptStatus::Pending),
            (ATTEMPT_UNKNOWN, AttemptStatus::Unknown),
            (ATTEMPT_CAPTURED, AttemptStatus::Captured),
        ];
        for (name, status) in statuses {
            assert_eq!(name, status.as_str());
        }
    }

    #[test]
    fn refund_literals_exist_in_the_payment_service() {
        let known = RefundStatus::ALL.map(RefundStatus::as_str);
        assert_known(OPEN_REFUNDS, &known);
    }
}
