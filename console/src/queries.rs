//! Reads of the services' databases. Each reads a bounded number of rows through an index, so its cost
//! does not grow with the history.

use std::collections::HashMap;
use std::str::FromStr as _;
use std::time::Duration;

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use endpoints::{Endpoints, Service, provider};
use invariants::Databases;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use crate::state::OrderLine;

/// The name of the console's connections in `pg_stat_activity`, so that its cost can be measured.
pub const APPLICATION_NAME: &str = "chargeonce-console";
/// Connections per database.
const CONNECTIONS_MAX: u32 = 2;
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);
/// An idle connection is closed, so that a console without a page holds none.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Limits every query of the console, so that none slows the system down for long.
const STATEMENT_TIMEOUT_MS: &str = "2000";
/// Principals whose newest orders are read.
const PRINCIPALS_MAX: i64 = 20;

/// Pools of the five databases. They connect when they are used, so a database may be down.
pub(crate) struct Pools {
    pub(crate) databases: Databases,
}

impl Pools {
    pub(crate) fn open(endpoints: &Endpoints) -> anyhow::Result<Self> {
        let open = |service| open(endpoints.database_url(service));
        Ok(Self {
            databases: Databases {
                order: open(Service::Order)?,
                payment: open(Service::Payment)?,
                fulfilment: open(Service::Fulfilment)?,
                receipt: open(Service::Receipt)?,
                psp: open(Service::Psp)?,
            },
        })
    }
}

fn open(url: &str) -> anyhow::Result<PgPool> {
    // The message leaves the URL out, because it may contain a password.
    let options = PgConnectOptions::from_str(url).context("a database URL is invalid")?;
    let options = options
        .application_name(APPLICATION_NAME)
        .options([("statement_timeout", STATEMENT_TIMEOUT_MS)]);
    Ok(PgPoolOptions::new()
        .max_connections(CONNECTIONS_MAX)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .idle_timeout(IDLE_TIMEOUT)
        .connect_lazy_with(options))
}

/// One order as its table has it.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct OrderRow {
    pub(crate) id: Uuid,
    pub(crate) status: String,
    amount: i64,
    currency: String,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) updated_at: DateTime<Utc>,
}

/// Reads the newest orders of each principal through its index; the newest of all are among them.
const NEWEST: &str = "
    select id, status, amount, currency, created_at, updated_at
    from (select id as principal from principals order by id limit $2) as principals
    cross join lateral (
        select id, status, amount, currency, created_at, updated_at from orders
        where principal_id = principal order by created_at desc, id desc limit $1
    ) as newest
    order by created_at desc, id desc limit $1";

const BY_ID: &str = "select id, status, amount, currency, created_at, updated_at from orders
    where id = any($1) order by created_at desc, id desc";

/// By the first digits of the id, by the key of the request, or by the merchant's reference.
const SEARCH: &str = "
    select id, status, amount, currency, created_at, updated_at from orders
    where id = any(array(
        (select id from orders where id between $1 and $2 order by id limit $4)
        union (
            select resource_id from (select id as principal from principals order by id limit $5) as principals
            join idempotency_keys on principal_id = principal and route = 'POST /orders' and key = $3
            where resource_id is not null limit $4)
        union (
            select orders.id from (select id as principal from principals order by id limit $5) as principals
            join orders on principal_id = principal and reference = $3 limit $4)
    )) order by created_at desc limit $4";

pub(crate) async fn newest(order: &PgPool, rows_max: i64) -> anyhow::Result<Vec<OrderRow>> {
    let query = sqlx::query_as(NEWEST).bind(rows_max).bind(PRINCIPALS_MAX);
    query
        .fetch_all(order)
        .await
        .context("reading the newest orders")
}

pub(crate) async fn by_id(order: &PgPool, ids: &[Uuid]) -> anyhow::Result<Vec<OrderRow>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let query = sqlx::query_as(BY_ID).bind(ids);
    query.fetch_all(order).await.context("reading orders")
}

pub(crate) async fn search(
    order: &PgPool,
    text: &str,
    rows_max: i64,
) -> anyhow::Result<Vec<OrderRow>> {
    // A text that is not hexadecimal matches only the nil id, which no order has.
    let (from, to) = id_range(text).unwrap_or((Uuid::nil(), Uuid::nil()));
    let query = sqlx::query_as(SEARCH).bind(from).bind(to).bind(text);
    let query = query.bind(rows_max).bind(PRINCIPALS_MAX);
    query.fetch_all(order).await.context("searching orders")
}

/// The first and the last id that begin with these digits.
fn id_range(text: &str) -> Option<(Uuid, Uuid)> {
    let digits: String = text.chars().filter(|it| *it != '-').collect();
    let is_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if digits.is_empty() || digits.len() > 32 || !is_hexadecimal {
        return None;
    }
    let end =
        |fill: &str| Uuid::parse_str(&format!("{digits}{}", fill.repeat(32 - digits.len()))).ok();
    Some((end("0")?, end("f")?))
}

/// Which of these orders exist.
pub(crate) async fn existing(order: &PgPool, ids: &[Uuid]) -> anyhow::Result<Vec<Uuid>> {
    sqlx::query_scalar("select id from orders where id = any($1)")
        .bind(ids)
        .fetch_all(order)
        .await
        .context("looking for accepted orders")
}

/// The orders with their charges in the provider's books.
pub(crate) async fn lines(
    psp: &PgPool,
    rows: &[OrderRow],
    followed: &[Uuid],
) -> anyhow::Result<Vec<OrderLine>> {
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
    let charges: HashMap<Uuid, i64> = match ids.is_empty() {
        true => HashMap::new(),
        false => provider::charges_per_order(psp, &ids).await?,
    };
    let line = |row: &OrderRow| OrderLine {
        order_id: row.id,
        status: row.status.clone(),
        amount: row.amount,
        currency: row.currency.clone(),
        placed_at: row.created_at,
        charges: charges.get(&row.id).copied().unwrap_or_default(),
        followed: followed.contains(&row.id),
    };
    Ok(rows.iter().map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginning_of_an_id_is_a_range() {
        let (from, to) = id_range("019A-b").unwrap();
        assert_eq!(from.to_string(), "019ab000-0000-0000-0000-000000000000");
        assert_eq!(to.to_string(), "019abfff-ffff-ffff-ffff-ffffffffffff");
        for text in ["", "-", "my-key", &"a".repeat(33)] {
            assert_eq!(id_range(text), None, "{text}");
        }
    }
}
