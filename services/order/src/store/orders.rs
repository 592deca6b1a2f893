//! Reading orders, and changing their status.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::Status;
use crate::domain::order::{Item, Order};

/// Selects whole orders. The checked macro needs the SQL as literals, so the column list is shared
/// by a macro and not by a constant.
macro_rules! select_orders {
    ($condition:literal, $($argument:expr),+ $(,)?) => {
        sqlx::query_as!(
            Order,
            r#"select id, reference, customer_id, status, version, attempt, amount, currency,
                payment_method, content_hash, created_at, updated_at,
                cancel_requested_at is not null as "cancel_requested!"
             from orders "# + $condition,
            $($argument),+
        )
    };
}

pub async fn find(
    connection: &mut PgConnection,
    principal_id: &str,
    id: Uuid,
) -> sqlx::Result<Option<Order>> {
    // Not `principal_id = $2`: a plan made on an empty table may then read all orders of the principal.
    select_orders!(
        "where id = $1 and principal_id is not distinct from $2",
        id,
        principal_id
    )
    .fetch_optional(connection)
    .await
}

/// [`find`], and locks the order until the transaction ends.
pub async fn find_and_lock(
    connection: &mut PgConnection,
    principal_id: &str,
    id: Uuid,
) -> sqlx::Result<Option<Order>> {
    select_orders!(
        "where id = $1 and principal_id is not distinct from $2 for update",
        id,
        principal_id
    )
    .fetch_optional(connection)
    .await
}

pub async fn find_by_reference(
    connection: &mut PgConnection,
    principal_id: &str,
    reference: &str,
) -> sqlx::Result<Option<Order>> {
    // Only the index of references returns rows in this order. With a plain `=` a plan made on an empty
    // table may read all orders of the principal.
    select_orders!(
        "where principal_id = $1 and reference between $2 and $2 order by reference limit 1",
        principal_id,
        reference
    )
    .fetch_optional(connection)
    .await
}

/// A position in the list of a principal's orders: newest first, by id where times are equal.
pub type ListPosition = (DateTime<Utc>, Uuid);

/// One page of all orders, newest first, after a position.
pub async fn list(
    connection: &mut PgConnection,
    principal_id: &str,
    after: Option<ListPosition>,
    limit: i64,
) -> sqlx::Result<Vec<Order>> {
    let (after_time, after_id) = after.unzip();
    select_orders!(
        "where principal_id = $1
           and (created_at, id) < (coalesce($2::timestamptz, 'infinity'),
                                   coalesce($3::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
         order by created_at desc, id desc
         limit $4",
        principal_id,
        after_time,
        after_id,
        limit
    )
    .fetch_all(connection)
    .await
}

/// The same for a status in which orders end without being shipped. Reads the index `orders_ended`.
pub async fn list_ended(
    connection: &mut PgConnection,
    principal_id: &str,
    status: Status,
    after: Option<ListPosition>,
    limit: i64,
) -> sqlx::Result<Vec<Order>> {
    let (after_time, after_id) = after.unzip();
    select_orders!(
        "where principal_id = $1 and ended_status = $2
           and (created_at, id) < (coalesce($3::timestamptz, 'infinity'),
                                   coalesce($4::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
         order by created_at desc, id desc
         limit $5",
        principal_id,
        status.as_str(),
        after_time,
        after_id,
        limit
    )
    .fetch_all(connection)
    .await
}

/// The same for any status, among the next `examined_max` orders only: no index finds them.
pub async fn list_among_next(
    connection: &mut PgConnection,
    principal_id: &str,
    status: Status,
    after: Option<ListPosition>,
    (limit, examined_max): (i64, i64),
) -> sqlx::Result<Vec<Order>> {
    let (after_time, after_id) = after.unzip();
    select_orders!(
        "where id = any(array(
             select next.id from (
                 select id, status from orders
                 where principal_id = $1
                   and (created_at, id) < (coalesce($3::timestamptz, 'infinity'),
                                           coalesce($4::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
                 order by created_at desc, id desc
                 limit $6
             ) as next
             where next.status = $2
             limit $5))
         order by created_at desc, id desc",
        principal_id,
        status.as_str(),
        after_time,
        after_id,
        limit,
        examined_max
    )
    .fetch_all(connection)
    .await
}

/// The position of the last of the next `examined_max` orders; `None` if there are fewer.
pub async fn position_after(
    connection: &mut PgConnection,
    principal_id: &str,
    after: Option<ListPosition>,
    examined_max: i64,
) -> sqlx::Result<Option<ListPosition>> {
    let (after_time, after_id) = after.unzip();
    let row = sqlx::query!(
        "select created_at, id from orders
         where principal_id = $1
           and (created_at, id) < (coalesce($2::timestamptz, 'infinity'),
                                   coalesce($3::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
         order by created_at desc, id desc
         offset $4 limit 1",
        principal_id,
        after_time,
        after_id,
        examined_max - 1
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(|row| (row.created_at, row.id)))
}

pub async fn items(connection: &mut PgConnection, id: Uuid) -> sqlx::Result<Vec<Item>> {
    sqlx::query_as!(
        Item,
        "select sku, quantity, unit_price from order_items where order_id = $1 order by line",
        id
    )
    .fetch_all(connection)
    .await
}

/// An order as the state machine needs it.
pub struct State {
    pub id: Uuid,
    pub status: String,
    pub version: i32,
    pub attempt: i32,
    pub cancel_requested: bool,
    /// How many times this service opened the next attempt automatically.
    pub reopened: i32,
}

/// Locks these orders in the order of their ids, so that two batches cannot deadlock.
pub async fn lock(connection: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<State>> {
    sqlx::query_as!(
        State,
        r#"select id, status, version, attempt, reopened,
                  cancel_requested_at is not null as "cancel_requested!"
           from orders where id = any($1) order by id for update"#,
        ids
    )
    .fetch_all(connection)
    .await
}

/// A change of status, valid only for the version that it was derived from.
pub struct Change {
    pub id: Uuid,
    /// The version before the change.
    pub version: i32,
    /// The status after the change.
    pub status: Status,
    /// The attempt that the status belongs to.
    pub attempt: i32,
    /// Whether the order has a cancellation request after the change. It is never withdrawn.
    pub cancel_requested: bool,
    /// Added to the version; see [`Status::steps_to`].
    pub steps: i32,
}

/// Applies the changes whose version still matches; returns their number. `any(array[…])` keeps the
/// plan to one lookup per change: with a plain `=` it may read the whole table instead.
pub async fn apply(connection: &mut PgConnection, changes: &[Change]) -> sqlx::Result<u64> {
    let ids: Vec<Uuid> = changes.iter().map(|change| change.id).collect();
    let versions: Vec<i32> = changes.iter().map(|change| change.version).collect();
    let statuses: Vec<&str> = changes
        .iter()
        .map(|change| change.status.as_str())
        .collect();
    let steps: Vec<i32> = changes.iter().map(|change| change.steps).collect();
    let attempts: Vec<i32> = changes.iter().map(|change| change.attempt).collect();
    let cancelled: Vec<bool> = changes.iter().map(|it| it.cancel_requested).collect();
    let updated = sqlx::query!(
        "update orders
         set status = change.status, version = orders.version + change.steps,
             attempt = change.attempt, updated_at = now(),
             cancel_requested_at = case when change.cancelled
                                   then coalesce(orders.cancel_requested_at, now()) end
         from unnest($1::uuid[], $2::integer[], $3::text[], $4::integer[], $5::integer[],
                     $6::boolean[])
            as change (id, version, status, steps, attempt, cancelled)
         where orders.id = any(array[change.id]) and orders.version = change.version",
        &ids,
        &versions,
        &statuses as &[&str],
        &steps,
        &attempts,
        &cancelled
    )
    .execute(connection)
    .await?;
    Ok(updated.rows_affected())
}
