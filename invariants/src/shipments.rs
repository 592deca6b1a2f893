//! Queries of the fulfilment service's tables.

use std::collections::BTreeMap;

use sqlx::PgPool;

use crate::query::{lines, per_order};

const SHIPPED: &str =
    "select order_id::text, attempt::bigint from shipments where status = 'shipped'";

const STOCK_MISMATCHES: &str = "with taken as (
        select line ->> 'sku' as sku, sum((line ->> 'quantity')::bigint) as quantity
        from shipments, jsonb_array_elements(lines) as line
        where status = 'shipped' group by 1
     )
     select format('%s: %s reserved, %s shipped, %s left',
                   sku, stock.reserved, coalesce(taken.quantity, 0), stock.available)
     from stock left join taken using (sku)
     where stock.reserved <> coalesce(taken.quantity, 0) or stock.available < 0";

/// The attempt that paid for each shipped order.
pub(crate) async fn shipped(fulfilment: &PgPool) -> anyhow::Result<BTreeMap<String, i64>> {
    per_order(fulfilment, SHIPPED).await
}

/// SKUs whose reserved quantity differs from what the shipments took, or is negative.
pub(crate) async fn stock_mismatches(fulfilment: &PgPool) -> anyhow::Result<Vec<String>> {
    lines(fulfilment, STOCK_MISMATCHES).await
}

#[cfg(test)]
mod tests {
    use fulfilment::domain::Status;

    use super::*;
    use crate::status_literals::assert_known;

    #[test]
    fn status_literals_exist_in_the_fulfilment_service() {
        let known = Status::ALL.map(Status::as_str);
        for query in [SHIPPED, STOCK_MISMATCHES] {
            assert_known(query, &known);
        }
    }
}
