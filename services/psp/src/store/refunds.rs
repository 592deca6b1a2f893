//! Reading refunds. A pending row already has the failure code that it will show once it has failed.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::refund::Refund;
use crate::store::LOOKUP_ROWS_MAX;

pub async fn by_key(connection: &mut PgConnection, key: &str) -> sqlx::Result<Vec<Refund>> {
    sqlx::query_as!(
        Refund,
        "select id, status, case when status = 'failed' then failure_code end as failure_code,
                charge_id, reference, amount, currency, idempotency_key, created_at
         from refunds where idempotency_key = $1 order by id limit $2",
        key,
        LOOKUP_ROWS_MAX,
    )
    .fetch_all(connection)
    .await
}

pub async fn by_reference(
    connection: &mut PgConnection,
    reference: &str,
) -> sqlx::Result<Vec<Refund>> {
    sqlx::query_as!(
        Refund,
        "select id, status, case when status = 'failed' then failure_code end as failure_code,
                charge_id, reference, amount, currency, idempotency_key, created_at
         from refunds where reference = $1 order by id limit $2",
        reference,
        LOOKUP_ROWS_MAX,
    )
    .fetch_all(connection)
    .await
}

/// The next page of all refunds, oldest first. `after` is the last id of the previous page; the nil
/// id starts at the beginning.
pub async fn page(
    connection: &mut PgConnection,
    after: Uuid,
    limit: i64,
) -> sqlx::Result<Vec<Refund>> {
    sqlx::query_as!(
        Refund,
        "select id, status, case when status = 'failed' then failure_code end as failure_code,
                charge_id, reference, amount, currency, idempotency_key, created_at
         from refunds where id > $1 order by id limit $2",
        after,
        limit,
    )
    .fetch_all(connection)
    .await
}

/// The oldest [`LOOKUP_ROWS_MAX`] refunds of each charge. Lateral with a limit, so that Postgres plans
/// one index probe per charge.
pub async fn of_charges(
    connection: &mut PgConnection,
    charge_ids: &[Uuid],
) -> sqlx::Result<Vec<Refund>> {
    sqlx::query_as!(
        Refund,
        "select refund.id, refund.status, refund.failure_code, refund.charge_id, refund.reference,
                refund.amount, refund.currency, refund.idempotency_key, refund.created_at
         from unnest($1::uuid[]) as wanted (charge_id)
         cross join lateral (
             select id, status, case when status = 'failed' then failure_code end as failure_code,
                    charge_id, reference, amount, currency, idempotency_key, created_at
             from refunds where refunds.charge_id = wanted.charge_id
             order by id limit $2
         ) refund",
        charge_ids,
        LOOKUP_ROWS_MAX,
    )
    .fetch_all(connection)
    .await
}
