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

/// How long a key that was found is believed without asking again: the longest time that a key
/// which was withdrawn still works.
const CACHE_TTL: Duration = Duration::from_secs(30);
/// Most keys remembered; past it the memory starts anew.
const CACHE_MAX: usize = 10_000;

/// What is stored of an API key.
pub type KeyHash = [u8; 32];
type Known = HashMap<KeyHash, (Arc<Principal>, Instant)>;

#[derive(Debug, ThisError)]
pub enum Error {
    #[error("no valid API key")]
    Unauthenticated,
    #[error("store")]
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

#[derive(Clone)]
pub struct Authenticator {
    pool: PgPool,
    known: Arc<RwLock<Known>>,
}

impl Authenticator {
    pub fn new(pool: PgPool) -> Self {
        Self {
            pool,
            known: Arc::default(),
        }
    }

    pub async fn principal(&self, headers: &HeaderMap) -> Result<Arc<Principal>, Error> {
        let hash = hash(bearer(headers).ok_or(Error::Unauthenticated)?);
        if let Some(principal) = self.remembered(&hash) {
            return Ok(principal);
        }
        let found = database::query_with_timeout(database::STORE_TIMEOUT, async {
            let mut connection = database::acquire(&self.pool).await?;
            store::find_by_key_hash(&mut connection, &hash).await
        })
        .await?;
        let principal = Arc::new(found.ok_or(Error::Unauthenticated)?);
        self.remember(hash, principal.clone());
        Ok(principal)
    }

    fn remembered(&self, hash: &KeyHash) -> Option<Arc<Principal>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let (principal, since) = known.get(hash)?;
        (since.elapsed() < CACHE_TTL).then(|| principal.clone())
    }

    fn remember(&self, hash: KeyHash, principal: Arc<Principal>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CACHE_MAX {
            known.clear();
        }
        known.insert(hash, (principal, Instant::now()));
    }
}

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
    fn only_a_bearer_key_is_read_in_any_case_of_the_scheme() {
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
