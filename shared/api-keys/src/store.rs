//! The tables `principals` and `api_keys`.

use sqlx::PgConnection;

/// A caller of the API.
#[derive(Clone, Debug)]
pub struct Principal {
    /// Scopes everything that the principal owns.
    pub id: String,
    /// Salt for the fingerprints of its requests.
    pub fingerprint_salt: Vec<u8>,
}

pub async fn find_by_key_hash(
    connection: &mut PgConnection,
    key_hash: &[u8],
) -> sqlx::Result<Option<Principal>> {
    sqlx::query_as!(
        Principal,
        "select principals.id, principals.fingerprint_salt
         from api_keys join principals on principals.id = api_keys.principal_id
         where api_keys.key_hash = $1",
        key_hash
    )
    .fetch_optional(connection)
    .await
}

/// Adds a principal with one API key. Does nothing if they exist.
pub async fn add(connection: &mut PgConnection, id: &str, key_hash: &[u8]) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into principals (id) values ($1) on conflict do nothing",
        id
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "insert into api_keys (key_hash, principal_id) values ($1, $2) on conflict do nothing",
        key_hash,
        id
    )
    .execute(connection)
    .await?;
    Ok(())
}
