//! The table `idempotency_keys`, as free functions over a connection: the caller owns the
//! transaction.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::{Fingerprint, Scope, StoredResponse};

/// What a request that meets its key in the table is to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Claim {
    /// The key was free and is ours, once the transaction commits.
    New,
    /// Answered before: give this again.
    Completed(StoredResponse),
    /// The key was used for another request.
    Mismatch,
    /// Somebody is at it, however long.
    InFlight { resource_id: Option<Uuid> },
    /// The window has closed: [`forget_expired`] and claim again.
    Expired,
    /// Stored in a format this code does not know. Running the operation again is safe, because
    /// the tables' own constraints make it so.
    Unreadable { resource_id: Option<Uuid> },
}

/// Claims the key in the caller's transaction, so that a crash before the commit leaves nothing
/// behind. Finish with [`complete`] before committing. Never waits for another request: who does not
/// get the key's advisory lock is told that it is in flight.
pub async fn claim(
    connection: &mut PgConnection,
    scope: Scope<'_>,
    fingerprint: &Fingerprint,
    resource_id: Option<Uuid>,
    window_seconds: u64,
) -> sqlx::Result<Claim> {
    let locked = sqlx::query_scalar!(
        r#"select pg_try_advisory_xact_lock($1) as "locked!""#,
        scope.lock_id()
    )
    .fetch_one(&mut *connection)
    .await?;
    if !locked {
        return Ok(Claim::InFlight { resource_id: None });
    }
    let inserted = sqlx::query!(
        "insert into idempotency_keys
            (principal_id, route, key, fingerprint, resource_id, expires_at)
         values ($1, $2, $3, $4, $5, now() + make_interval(secs => $6))
         on conflict do nothing",
        scope.principal_id,
        scope.route,
        scope.key.as_str(),
        fingerprint.as_bytes(),
        resource_id,
        window_seconds as f64
    )
    .execute(&mut *connection)
    .await?;
    if inserted.rows_affected() == 1 {
        return Ok(Claim::New);
    }
    // Gone between the two statements means reaped, which is the same as expired.
    Ok(find(connection, scope, fingerprint)
        .await?
        .unwrap_or(Claim::Expired))
}

/// Stores the answer under a key that was claimed before, usually in the same transaction. If it was
/// not, the window counts from here: work that took longer than it must not leave a key that has
/// expired before anybody could hear its answer.
pub async fn complete(
    connection: &mut PgConnection,
    scope: Scope<'_>,
    response: &StoredResponse,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update idempotency_keys
         set response_version = $4, response_status = $5, response_headers = $6, response_body = $7,
             expires_at = greatest(expires_at, now() + (expires_at - created_at))
         where principal_id = $1 and route = $2 and key = $3",
        scope.principal_id,
        scope.route,
        scope.key.as_str(),
        StoredResponse::VERSION,
        response.status as i16,
        response.headers_json(),
        response.body
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Looks the key up; `None` if there is no record of it.
pub async fn find(
    connection: &mut PgConnection,
    scope: Scope<'_>,
    fingerprint: &Fingerprint,
) -> sqlx::Result<Option<Claim>> {
    let row = sqlx::query!(
        r#"select fingerprint, resource_id, response_version, response_status, response_headers,
                  response_body,
                  expires_at <= now() and response_version is not null as "expired!"
           from idempotency_keys where principal_id = $1 and route = $2 and key = $3"#,
        scope.principal_id,
        scope.route,
        scope.key.as_str()
    )
    .fetch_optional(connection)
    .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    if row.expired {
        return Ok(Some(Claim::Expired));
    }
    if row.fingerprint != fingerprint.as_bytes() {
        return Ok(Some(Claim::Mismatch));
    }
    let resource_id = row.resource_id;
    let response = (
        row.response_version,
        row.response_status,
        row.response_headers,
        row.response_body,
    );
    let (Some(version), Some(status), Some(headers), Some(body)) = response else {
        return Ok(Some(Claim::InFlight { resource_id }));
    };
    Ok(Some(
        match StoredResponse::read(version, status, headers, body) {
            Some(response) => Claim::Completed(response),
            None => Claim::Unreadable { resource_id },
        },
    ))
}

/// Makes way for a new use of a key whose window has closed but which is not reaped yet. One without
/// an answer stays, however old: its work goes on, and a second use would do it twice.
pub async fn forget_expired(connection: &mut PgConnection, scope: Scope<'_>) -> sqlx::Result<()> {
    sqlx::query!(
        "delete from idempotency_keys
         where principal_id = $1 and route = $2 and key = $3 and expires_at <= now()
           and response_version is not null",
        scope.principal_id,
        scope.route,
        scope.key.as_str()
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Deletes expired records, the oldest first, at most `batch_max`; returns how many. Several
/// reapers at once step around each other's rows. What has no answer yet is not expired.
pub async fn reap(connection: &mut PgConnection, batch_max: i64) -> sqlx::Result<u64> {
    let deleted = sqlx::query!(
        "delete from idempotency_keys where ctid = any(array(
            select ctid from idempotency_keys
            where expires_at <= now() and response_version is not null
            order by expires_at limit $1 for update skip locked))",
        batch_max
    )
    .execute(connection)
    .await?;
    Ok(deleted.rows_affected())
}
