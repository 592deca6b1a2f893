//! Applies the events of payment and fulfilment to the orders. What follows a failed payment is in the same
//! commit: the next attempt, if only the key can no longer be used at the provider, or else an event for the
//! customer.

mod announce;
mod reopen;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use events::EventType;
use inbox::{Delivery, Handler};
use serde::Deserialize;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::admission::Admission;
use crate::domain::{AfterFailure, Status, after_failure, catch_up, next};
use crate::store::orders::{self, Change, State};

pub struct FollowOrders {
    /// How many times this service opens the next attempt of one order automatically.
    pub reopens_max: u16,
    /// Wakes the relay.
    pub wake: outbox::Wake,
    /// The consumer group, under which messages are recorded as processed.
    pub group: String,
    /// Learns that other services work.
    pub admission: Arc<Admission>,
}

/// Whether a batch has written events.
pub struct WroteEvents(bool);

impl Handler for FollowOrders {
    type AfterCommit = WroteEvents;

    fn wants(&self, event_type: EventType) -> bool {
        Status::ALL
            .into_iter()
            .any(|status| next(status, event_type).is_some())
    }

    async fn handle(
        &self,
        tx: &mut PgConnection,
        new: &[&Delivery],
    ) -> anyhow::Result<WroteEvents> {
        let ids: Vec<Uuid> = new
            .iter()
            .map(|delivery| delivery.envelope.subject)
            .collect();
        let states = orders::lock(tx, &ids).await.context("locking orders")?;
        let folded = self.fold(states, new)?;
        if !folded.unknown.is_empty() {
            // The order was lost with the database and may be placed again, under its id. Then its events
            // are published again, and must not count as duplicates.
            inbox::processed::forget(tx, &self.group, &folded.unknown)
                .await
                .context("forgetting events of unknown orders")?;
        }
        let changes = folded.changes;
        let expected = changes.len() as u64;
        if expected > 0 {
            let applied = orders::apply(tx, &changes)
                .await
                .context("updating orders")?;
            // The rows are locked, so their versions cannot have changed.
            anyhow::ensure!(
                applied == expected,
                "{applied} of {expected} changes applied"
            );
        }
        announce::apply(tx, &folded.failed).await?;
        reopen::apply(tx, &folded.reopened).await?;
        let wrote_events = !folded.failed.is_empty() || !folded.reopened.is_empty();
        Ok(WroteEvents(wrote_events))
    }

    fn committed(&self, batches: Vec<WroteEvents>) {
        self.admission.heard();
        if batches.iter().any(|it| it.0) {
            self.wake.wake();
        }
    }
}

/// The result of a batch.
struct Folded<'a> {
    changes: Vec<Change>,
    /// Failed payments after which the order waits for its customer.
    failed: Vec<&'a Delivery>,
    /// Orders whose next attempt is opened, with the event that failed the last one.
    reopened: Vec<&'a Delivery>,
    /// Events about orders that do not exist here.
    unknown: Vec<Uuid>,
}

/// An order while the events of a batch are applied to it.
struct Progress<'a> {
    change: Change,
    reopened: i32,
    /// The event after which the next attempt is opened.
    reopen: Option<&'a Delivery>,
}

/// The only members of a payload that the order service reads.
#[derive(Deserialize)]
struct PaymentOutcome {
    attempt: i32,
    #[serde(default)]
    retry: bool,
}

impl FollowOrders {
    /// Runs the events of each order through the state machine, in the order of their arrival.
    fn fold<'a>(&self, states: Vec<State>, new: &[&'a Delivery]) -> anyhow::Result<Folded<'a>> {
        let (mut orders, mut unknown, mut failed) = (BTreeMap::new(), Vec::new(), Vec::new());
        for state in states {
            orders.insert(state.id, Progress::of(state)?);
        }
        for delivery in new {
            let (id, event) = (delivery.envelope.subject, delivery.envelope.event_type);
            let correlation_id = &delivery.envelope.correlation_id;
            let Some(order) = orders.get_mut(&id) else {
                tracing::warn!(
                    order_id = %id, %event, correlation_id,
                    "event ignored: order not found"
                );
                unknown.push(delivery.envelope.id);
                continue;
            };
            let outcome: PaymentOutcome = serde_json::from_str(&delivery.envelope.payload)
                .with_context(|| format!("reading the attempt of {event} for order {id}"))?;
            if !order.apply(event, outcome.attempt) {
                let (status, attempt) = (order.change.status, outcome.attempt);
                tracing::info!(
                    order_id = %id, %event, attempt, %status, correlation_id,
                    "stale event ignored"
                );
                continue;
            }
            order.reopen = None;
            if event == EventType::PaymentFailed {
                let (cancelled, reopened) = (order.change.cancel_requested, order.reopened);
                match after_failure(outcome.retry, cancelled, reopened, self.reopens_max) {
                    AfterFailure::Reopen => order.reopen = Some(*delivery),
                    AfterFailure::AskCustomer => failed.push(*delivery),
                    AfterFailure::Cancel => {}
                }
            }
        }
        let reopened = orders.values().filter_map(|order| order.reopen).collect();
        let changes = orders.into_values().map(|order| order.change);
        Ok(Folded {
            failed,
            reopened,
            unknown,
            changes: changes.filter(|change| change.steps > 0).collect(),
        })
    }
}

impl Progress<'_> {
    fn of(state: State) -> anyhow::Result<Self> {
        let status: Status = state.status.parse()?;
        Ok(Self {
            change: Change {
                id: state.id,
                version: state.version,
                status,
                attempt: state.attempt,
                cancel_requested: state.cancel_requested,
                steps: 0,
            },
            reopened: state.reopened,
            reopen: None,
        })
    }

    /// Returns whether the event changed anything. The outcome of an earlier attempt is stale.
    fn apply(&mut self, event: EventType, attempt: i32) -> bool {
        let change = &mut self.change;
        let (before, catch_up) = match catch_up(change.status, change.attempt, attempt) {
            Some(caught_up) => caught_up,
            None => return false,
        };
        let Some(after) = next(before, event) else {
            return false;
        };
        change.status = after;
        change.attempt = attempt;
        change.steps += catch_up + before.steps_to(after);
        // Without a request no order is cancelled. If it is not here, it was lost.
        if after == Status::Cancelled && !change.cancel_requested {
            change.cancel_requested = true;
            change.steps += 1;
        }
        true
    }
}
