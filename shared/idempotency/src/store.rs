//! The table `idempotency_keys`: free functions over a connection. The caller owns the transaction.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::{Fingerprint, Scope, StoredResponse};

/// Maximum number of rounds of one request. It starts over if its key expires or is deleted between
/// two reads, so a second round nearly always ends it.
pub const CLAIM_ROUNDS_MAX: u8 = 3;

/// The state of a key, which decides what its request does.
#[derive(Debug, PartialEq, Eq)]
pub enum Claim {
    /// The key was free. It belongs to this request once the transaction commits.
    New,
    /// The request was completed before: replay this response.
    Completed(StoredResponse),
    /// The key was used for a different request.
    Mismatch,
    /// Another request holds this key, or its work is unfinished. Such a key never expires.
    InFlight { resource_id: Option<Uuid> },
    /// The window has ended: call [`forget_expired`] and claim again.
    Expired,
    /// The response has a format that this version does not know. Derive the response from the
    /// service's own tables, and do not repeat the work.
    Unreadable { resource_id: Option<Uuid> },
}

/// Claims the key in the caller's transaction, so that a crash before the commit leaves nothing
/// behind. Call [`complete`] before the commit. A claim never waits for another request: if that
/// request holds the key's advisory lock, the result is [`Claim::InFlight`].
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
    // A row deleted between the two statements was reaped, so the key had expired.
    Ok(find(connection, scope, fingerprint)
        .await?
        .unwrap_or(Claim::Expired))
}

/// Stores the response of a claimed key, usually in the transaction of the claim. In a later
/// transaction the window starts again. Otherwise, after work that takes longer than the window,
/// the key would expire before the client can read the response.
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

/// Looks up the key. Returns `None` if it has no record.
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

/// Deletes the record if its window has ended, so that the key can be used again before it is
/// reaped. A record without a response stays, regardless of its age: its work is unfinished, and a
/// second use would do the work twice.
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

/// Deletes at most `batch_max` expired records, the oldest first, and returns their number. Concurrent
/// reapers skip each other's rows. A record without a response does not expire.
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
