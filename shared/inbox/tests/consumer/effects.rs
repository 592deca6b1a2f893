//! A handler whose effects can be counted, and which can be made to fail.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use events::{EventType, FulfilmentShipped};
use inbox::{Delivery, Handler};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::harness::Harness;

/// Number of failures that no test reaches.
pub(crate) const ALWAYS: usize = usize::MAX;

#[derive(Clone, Default)]
pub(crate) struct Effects {
    /// How many of the next calls fail after their writes, with the error of an unreachable database.
    pub(crate) failures: Arc<AtomicUsize>,
    /// Order and number of messages that the handler rejects.
    pub(crate) poison: Arc<Mutex<HashSet<(Uuid, i32)>>>,
    /// How many calls have begun, and how many of them got past their writes.
    pub(crate) tries: Arc<AtomicUsize>,
    pub(crate) calls: Arc<AtomicUsize>,
    /// How long each call takes.
    pub(crate) delay: Duration,
    /// What each call of `committed` got: the numbers of the messages.
    pub(crate) committed: Arc<Mutex<Vec<Vec<i32>>>>,
}

impl Effects {
    pub(crate) fn failing(times: usize) -> Self {
        let effects = Self::default();
        effects.fail(times);
        effects
    }

    pub(crate) fn poisoned(messages: &[(Uuid, i32)]) -> Self {
        let effects = Self::default();
        effects.poison.lock().unwrap().extend(messages);
        effects
    }

    pub(crate) fn poison(&self, order: Uuid, number: i32) {
        self.poison.lock().unwrap().insert((order, number));
    }

    /// Makes this many of the next calls fail, with the error of an unreachable database.
    pub(crate) fn fail(&self, times: usize) {
        self.failures.store(times, Ordering::SeqCst);
    }

    /// From now on the handler accepts the messages that are parked as failed.
    pub(crate) async fn cure_parked(&self, harness: &Harness) {
        let failed: Vec<(Uuid, i32)> = sqlx::query_as(
            "select subject, (convert_from(payload, 'UTF8')::jsonb->>'attempt')::integer
             from parked_messages where failed",
        )
        .fetch_all(&harness.pool)
        .await
        .unwrap();
        let mut poison = self.poison.lock().unwrap();
        poison.retain(|message| !failed.contains(message));
    }

    pub(crate) fn heal(&self) {
        self.failures.store(0, Ordering::SeqCst);
        self.poison.lock().unwrap().clear();
    }

    pub(crate) fn tries(&self) -> usize {
        self.tries.load(Ordering::SeqCst)
    }

    /// What each call of `committed` got: the numbers of the messages.
    pub(crate) fn committed(&self) -> Vec<Vec<i32>> {
        self.committed.lock().unwrap().clone()
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Handler for Effects {
    /// The numbers of the messages.
    type AfterCommit = Vec<i32>;

    fn wants(&self, event_type: EventType) -> bool {
        event_type == EventType::FulfilmentShipped
    }

    async fn handle(&self, tx: &mut PgConnection, new: &[&Delivery]) -> anyhow::Result<Vec<i32>> {
        self.tries.fetch_add(1, Ordering::SeqCst);
        let mut numbers = Vec::with_capacity(new.len());
        for delivery in new {
            let event: FulfilmentShipped = delivery.envelope.open()?;
            sqlx::query("insert into effects (message_id, subject, number) values ($1, $2, $3)")
                .bind(delivery.envelope.id)
                .bind(event.order_id)
                .bind(event.attempt)
                .execute(&mut *tx)
                .await?;
            numbers.push(event.attempt);
            let message = (event.order_id, event.attempt);
            if self.poison.lock().unwrap().contains(&message) {
                self.calls.fetch_add(1, Ordering::SeqCst);
                // Messages with an even number panic, the others return an error.
                assert!(event.attempt % 2 == 1, "poison\0");
                anyhow::bail!("poison\0 in number {}", event.attempt);
            }
        }
        self.calls.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(self.delay).await;
        let fewer = |left: usize| left.checked_sub(1);
        let left = self
            .failures
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer);
        match left {
            Ok(_) => Err(sqlx::Error::PoolTimedOut.into()),
            Err(_) => Ok(numbers),
        }
    }

    fn committed(&self, after_commit: Vec<Vec<i32>>) {
        self.committed.lock().unwrap().push(after_commit.concat());
    }
}
