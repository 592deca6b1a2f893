//! Callers who wait for the outcome of their direct charge, in this process.
//!
//! A hint that saves them from asking the database again and again; the database stays the authority,
//! and tells them also what another replica settled.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use uuid::Uuid;

#[derive(Clone, Debug, Default)]
pub struct Waiting(Arc<Mutex<HashMap<Uuid, Arc<Notify>>>>);

/// A place in the line, given up on drop.
pub struct Wait {
    waiting: Waiting,
    payment_id: Uuid,
    settled: Arc<Notify>,
}

impl Waiting {
    pub fn join(&self, payment_id: Uuid) -> Wait {
        let settled = Arc::new(Notify::new());
        self.all().insert(payment_id, settled.clone());
        Wait {
            waiting: self.clone(),
            payment_id,
            settled,
        }
    }

    pub fn settled(&self, payment_id: Uuid) {
        if let Some(settled) = self.all().get(&payment_id) {
            settled.notify_one();
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Uuid, Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wait {
    /// Returns when the payment was settled by this process, also if that was before the call.
    pub async fn settled(&self) {
        self.settled.notified().await;
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.waiting.all().remove(&self.payment_id);
    }
}
