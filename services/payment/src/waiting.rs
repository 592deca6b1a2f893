//! Requests of this process that wait for the outcome of their direct charge.
//!
//! A wake-up is only a hint that saves queries. The database is authoritative: it also has the
//! outcomes that other replicas recorded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use uuid::Uuid;

/// All waiting requests, by payment.
#[derive(Clone, Debug, Default)]
pub struct Waiting(Arc<Mutex<HashMap<Uuid, Arc<Notify>>>>);

/// One waiting request. Dropping it ends the wait.
pub struct Wait {
    waiting: Waiting,
    payment_id: Uuid,
    settled: Arc<Notify>,
}

impl Waiting {
    /// Starts to wait for a payment.
    pub fn join(&self, payment_id: Uuid) -> Wait {
        let settled = Arc::new(Notify::new());
        self.all().insert(payment_id, settled.clone());
        Wait {
            waiting: self.clone(),
            payment_id,
            settled,
        }
    }

    /// Wakes the request that waits for this payment, if it waits in this process.
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
    /// Returns when this process has settled the payment, even if it did so before the call.
    pub async fn settled(&self) {
        self.settled.notified().await;
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.waiting.all().remove(&self.payment_id);
    }
}
