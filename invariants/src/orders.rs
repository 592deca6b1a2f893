//! Queries of the order service's tables.

use sqlx::PgPool;

use crate::query::lines;

/// Orders that have shipped.
pub(crate) const SHIPPED: &str = "select count(*) from orders where status = 'shipped'";

/// The amounts of orders that are paid for and not refunded.
pub(crate) const AMOUNT_DUE: &str = "select coalesce(sum(amount), 0)::bigint from orders
     where status in ('paid', 'shipped')";

/// The version counts state changes, so each state has exactly one legal version. It starts at 1. Each
/// earlier attempt added two: to `declined` or `failed`, and back to `placed`. Within the attempt, `paid`,
/// `declined` and `failed` are one step away, and the other final states two. A skipped state, whose event
/// came after the event of the next state, counts as a step. A cancellation request adds one, no matter when
/// it came. Without a request no order is `cancelled`.
pub(crate) const ILLEGAL_VERSIONS: &str =
    "select format('%s is %s at version %s in attempt %s', id, status, version, attempt)
     from orders
     where version <> 2 * attempt - 1
             + case status when 'placed' then 0 when 'paid' then 1 when 'declined' then 1
                           when 'failed' then 1
                           when 'shipped' then 2 when 'cancelled' then 2
                           when 'refunded' then 2 end
             + (cancel_requested_at is not null)::integer
        or status = 'cancelled' and cancel_requested_at is null";

/// A declined or failed order is final until the customer pays again, unless its cancellation was requested:
/// then it still has to become `cancelled`.
pub(crate) const UNFINISHED: &str = "select format('%s is %s', id, status) from orders
     where status not in ('shipped', 'declined', 'failed', 'cancelled', 'refunded')
        or status in ('declined', 'failed') and cancel_requested_at is not null";

/// Orders whose version does not follow from their state and attempt.
pub(crate) async fn illegal_versions(order: &PgPool) -> anyhow::Result<Vec<String>> {
    lines(order, ILLEGAL_VERSIONS).await
}

/// Orders that are not terminal.
pub(crate) async fn unfinished(order: &PgPool) -> anyhow::Result<Vec<String>> {
    lines(order, UNFINISHED).await
}

#[cfg(test)]
mod tests {
    use order::domain::Status;

    use super::*;
    use crate::status_literals::assert_known;

    #[test]
    fn status_literals_exist_in_the_order_service() {
        let known = Status::ALL.map(Status::as_str);
        for query in [SHIPPED, AMOUNT_DUE, ILLEGAL_VERSIONS, UNFINISHED] {
            assert_known(query, &known);
        }
    }

    #[test]
    fn endpoints_name_the_statuses_of_orders() {
        assert_eq!(endpoints::status::ORDER_PAID, Status::Paid.as_str());
        assert_eq!(endpoints::status::ORDER_SHIPPED, Status::Shipped.as_str());
    }

    #[test]
    fn version_rule_covers_every_status() {
        for status in Status::ALL {
            let steps = Status::Placed.steps_to(status);
            let rule = format!("when '{status}' then {steps}");
            assert!(ILLEGAL_VERSIONS.contains(&rule), "missing: {rule}");
        }
    }
}
