//! What each service's tables say about orders, money and stock.

use std::collections::BTreeMap;

use anyhow::Context;
use sqlx::PgPool;

/// Charges by order: how many, and their sum.
pub(super) struct Books(BTreeMap<String, (i64, i64)>);

impl Books {
    pub(super) async fn read(psp: &PgPool) -> anyhow::Result<Self> {
        let rows: Vec<(String, i64, i64)> = sqlx::query_as(
            "select reference, count(*), sum(amount)::bigint from charges group by reference",
        )
        .fetch_all(psp)
        .await
        .context("reading the PSP's books")?;
        let by_order = rows
            .into_iter()
            .map(|(order, count, sum)| (order, (count, sum)));
        Ok(Self(by_order.collect()))
    }

    pub(super) fn is_charged(&self, order: &str) -> bool {
        self.0.contains_key(order)
    }

    pub(super) fn charged_more_than_once(&self) -> impl Iterator<Item = (&str, i64)> {
        let all = self
            .0
            .iter()
            .map(|(order, (count, _))| (order.as_str(), *count));
        all.filter(|(_, count)| *count > 1)
    }

    pub(super) fn total(&self) -> i64 {
        self.0.values().map(|(_, sum)| sum).sum()
    }

    /// Both ways: charges that we do not know of, and captures that the provider does not know of.
    pub(super) fn differences(&self, captured: &BTreeMap<String, i64>) -> Vec<String> {
        let unknown_here = self
            .0
            .iter()
            .filter(|(order, _)| !captured.contains_key(*order));
        let unknown_there = captured.iter().filter(|(order, amount)| {
            self.0
                .get(*order)
                .is_none_or(|(_, charged)| charged != *amount)
        });
        let mut differences: Vec<String> = unknown_here
            .map(|(order, (_, sum))| format!("{order}: charged {sum}, not recorded"))
            .collect();
        differences.extend(
            unknown_there.map(|(order, amount)| format!("{order}: recorded {amount}, not charged")),
        );
        differences
    }
}

/// Captured attempts in the payment table: order → amount.
pub(super) async fn captured(payment: &PgPool) -> anyhow::Result<BTreeMap<String, i64>> {
    pairs(
        payment,
        "select order_id::text, amount from payments where status = 'captured'",
    )
    .await
}

/// Shipments: order → attempt.
pub(super) async fn shipped(fulfilment: &PgPool) -> anyhow::Result<BTreeMap<String, i64>> {
    pairs(
        fulfilment,
        "select order_id::text, attempt::bigint from shipments where status = 'shipped'",
    )
    .await
}

/// SKUs whose reserved pieces are not what the shipments took.
pub(super) async fn stock_that_does_not_add_up(fulfilment: &PgPool) -> anyhow::Result<Vec<String>> {
    lines(
        fulfilment,
        "with taken as (
            select line ->> 'sku' as sku, sum((line ->> 'quantity')::bigint) as quantity
            from shipments, jsonb_array_elements(lines) as line
            where status = 'shipped' group by 1
         )
         select format('%s: %s reserved, %s shipped, %s left',
                       sku, stock.reserved, coalesce(taken.quantity, 0), stock.available)
         from stock left join taken using (sku)
         where stock.reserved <> coalesce(taken.quantity, 0) or stock.available < 0",
    )
    .await
}

/// Every legal way to a state has one length, and the version counts the steps.
pub(super) async fn illegal_versions(order: &PgPool) -> anyhow::Result<Vec<String>> {
    lines(
        order,
        "select format('%s is %s at version %s', id, status, version) from orders
         where version <> case status when 'placed' then 1 when 'paid' then 2
                                      when 'declined' then 2 when 'shipped' then 3 end",
    )
    .await
}

pub(super) async fn unfinished(order: &PgPool) -> anyhow::Result<Vec<String>> {
    lines(
        order,
        "select format('%s is %s', id, status) from orders
         where status not in ('shipped', 'declined')",
    )
    .await
}

pub(super) async fn shipped_orders(order: &PgPool) -> anyhow::Result<i64> {
    let query = "select count(*) from orders where status = 'shipped'";
    sqlx::query_scalar(query)
        .fetch_one(order)
        .await
        .context(query)
}

/// What customers owe for what was paid or shipped.
pub(super) async fn amount_due(order: &PgPool) -> anyhow::Result<i64> {
    let query = "select coalesce(sum(amount), 0)::bigint from orders
                 where status in ('paid', 'shipped')";
    sqlx::query_scalar(query)
        .fetch_one(order)
        .await
        .context(query)
}

async fn pairs(pool: &PgPool, query: &'static str) -> anyhow::Result<BTreeMap<String, i64>> {
    let rows: Vec<(String, i64)> = sqlx::query_as(query).fetch_all(pool).await.context(query)?;
    Ok(rows.into_iter().collect())
}

async fn lines(pool: &PgPool, query: &'static str) -> anyhow::Result<Vec<String>> {
    sqlx::query_scalar(query)
        .fetch_all(pool)
        .await
        .context(query)
}
