//! Reading charges. A pending row already has the failure code that it will show once it has failed.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::charge::Charge;
use crate::store::LOOKUP_ROWS_MAX;

pub async fn by_id(connection: &mut PgConnection, id: Uuid) -> sqlx::Result<Option<Charge>> {
    sqlx::query_as!(
        Charge,
        "select id, status, case when status = 'failed' then failure_code end as failure_code,
                reference, amount, currency, payment_method, idempotency_key, created_at
         from charges where id = $1",
        id,
    )
    .fetch_optional(connection)
    .await
}

pub async fn by_key(connection: &mut PgConnection, key: &str) -> sqlx::Result<Vec<Charge>> {
    sqlx::query_as!(
        Charge,
        "select id, status, case when status = 'failed' then failure_code end as failure_code,
                reference, amount, currency, payment_method, idempotency_key, created_at
         from charges where idempotency_key = $1 order by id limit $2",
        key,
        LOOKUP_ROWS_MAX,
    )
    .fetch_all(connection)
    .await
}

pub async fn by_reference(
    connection: &mut PgConnection,
    reference: &str,
) -> sqlx::Result<Vec<Charge>> {
    sqlx::query_as!(
        Charge,
        "select id, status, case when status = 'failed' then failure_code end as failure_code,
                reference, amount, currency, payment_method, idempotency_key, created_at
         from charges where reference = $1 order by id limit $2",
        reference,
        LOOKUP_ROWS_MAX,
    )
    .fetch_all(connection)
    .await
}

/// The next page of all charges, oldest first. `after` is the last id of the previous page; the nil
/// id starts at the beginning.
pub async fn page(
    connection: &mut PgConnection,
    after: Uuid,
    limit: i64,
) -> sqlx::Result<Vec<Charge>> {
    sqlx::query_as!(
        Charge,
        "select id, status, case when status = 'failed' then failure_code end as failure_code,
                reference, amount, currency, payment_method, idempotency_key, created_at
         from charges where id > $1 order by id limit $2",
        after,
        limit,
    )
    .fetch_all(connection)
    .await
}
