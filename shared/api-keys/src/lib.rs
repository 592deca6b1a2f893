#![doc = include_str!("../README.md")]

pub mod demo;
pub mod store;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use service_kit::{RequestError, database};
use sha2::{Digest, Sha256};
use sqlx::PgPool;
use thiserror::Error as ThisError;

pub use store::Principal;

/// How long a key that was found is trusted without another query. A revoked key works for at most
/// this long.
const CACHE_TTL: Duration = Duration::from_secs(30);
/// Largest number of cached keys. The cache is cleared when it is full.
const CACHE_MAX: usize = 10_000;

/// SHA-256 of an API key. Only the hash is stored.
pub type KeyHash = [u8; 32];
type Cache = HashMap<KeyHash, (Arc<Principal>, Instant)>;

#[derive(Debug, ThisError)]
pub enum Error {
    #[error("missing or unknown API key")]
    Unauthenticated,
    #[error("cannot look up the API key")]
    Store(#[from] database::Error),
}

impl From<Error> for RequestError {
    fn from(error: Error) -> Self {
        match error {
            Error::Unauthenticated => Self::Unauthenticated,
            Error::Store(error) => Self::Store(error),
        }
    }
}

/// Finds the principal of a request. Clones share one cache.
#[derive(Clone)]
pub struct Authenticator {
    pool: PgPool,
    cache: Arc<RwLock<Cache>>,
}

impl Authenticator {
    pub fn new(pool: PgPool) -> Self {
        Self {
            pool,
            cache: Arc::default(),
        }
    }

    /// The principal whose key is in `Authorization: Bearer <key>`.
    pub async fn principal(&self, headers: &HeaderMap) -> Result<Arc<Principal>, Error> {
        let hash = hash(bearer(headers).ok_or(Error::Unauthenticated)?);
        if let Some(principal) = self.cached(&hash) {
            return Ok(principal);
        }
        let found = database::query_with_timeout(database::STORE_TIMEOUT, async {
            let mut connection = database::acquire(&self.pool).await?;
            store::find_by_key_hash(&mut connection, &hash).await
        })
        .await?;
        let principal = Arc::new(found.ok_or(Error::Unauthenticated)?);
        self.cache(hash, principal.clone());
        Ok(principal)
    }

    fn cached(&self, hash: &KeyHash) -> Option<Arc<Principal>> {
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        let (principal, since) = cache.get(hash)?;
        (since.elapsed() < CACHE_TTL).then(|| principal.clone())
    }

    fn cache(&self, hash: KeyHash, principal: Arc<Principal>) {
        let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= CACHE_MAX {
            cache.clear();
        }
        cache.insert(hash, (principal, Instant::now()));
    }
}

/// The hash under which a key is stored.
pub fn hash(key: &str) -> KeyHash {
    Sha256::digest(key).into()
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_bearer_keys_are_read() {
        for (value, key) in [
            ("Bearer k-1", Some("k-1")),
            ("bEARER  k-1 ", Some("k-1")),
            ("Bearer ", Some("")),
            ("Bearer", None),
            ("Basic azox", None),
            ("k-1", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(value));
            assert_eq!(bearer(&headers), key, "{value:?}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
