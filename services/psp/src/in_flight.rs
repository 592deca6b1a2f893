//! Keys that a request is working on.
//!
//! They are kept in memory, because this provider is one process and a charge is one statement.
//! When the process dies, its work ends too, and no key stays marked.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub struct InFlight {
    keys: Mutex<HashSet<Arc<str>>>,
}

/// The exclusive right to work on a key. Released on drop, even after an error or a panic, or when
/// the caller hangs up.
#[derive(Debug)]
pub struct Claim<'a> {
    registry: &'a InFlight,
    key: Arc<str>,
}

impl InFlight {
    /// Returns `None` while another request is working on the key.
    pub fn claim(&self, key: &Arc<str>) -> Option<Claim<'_>> {
        let fresh = self.keys().insert(Arc::clone(key));
        fresh.then(|| Claim {
            registry: self,
            key: Arc::clone(key),
        })
    }

    /// Whether a request is working on the key.
    pub fn contains(&self, key: &str) -> bool {
        self.keys().contains(key)
    }

    fn keys(&self) -> MutexGuard<'_, HashSet<Arc<str>>> {
        // A panic cannot leave the set half changed, so a poisoned lock is usable.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.registry.keys().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_has_one_claim_until_it_is_dropped() {
        let registry = InFlight::default();
        let key = Arc::from("k");
        let claim = registry.claim(&key);
        assert!(claim.is_some());
        assert!(registry.claim(&key).is_none());
        assert!(registry.claim(&Arc::from("other")).is_some());
        assert!(registry.contains("k") && !registry.contains("other"));
        drop(claim);
        assert!(!registry.contains("k"));
        assert!(registry.claim(&key).is_some());
    }
}
