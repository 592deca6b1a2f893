//! Applies the events of payment and fulfilment to the orders.

use std::collections::BTreeMap;

use anyhow::Context as _;
use events::EventType;
use inbox::{Delivery, Handler};
use serde::Deserialize;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::{Status, next};
use crate::store::orders::{self, Change, State};

pub struct FollowOrders;

impl Handler for FollowOrders {
    fn wants(&self, event_type: EventType) -> bool {
        Status::ALL
            .into_iter()
            .any(|status| next(status, event_type).is_some())
    }

    async fn handle(&self, tx: &mut PgConnection, new: &[&Delivery]) -> anyhow::Result<()> {
        let ids: Vec<Uuid> = new
            .iter()
            .map(|delivery| delivery.envelope.subject)
            .collect();
        let states = orders::lock(tx, &ids).await.context("locking orders")?;
        let changes = fold(states, new)?;
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
        Ok(())
    }
}

/// An order while the events of a batch are applied to it.
struct Progress {
    attempt: i32,
    change: Change,
}

/// The only member of a payload that the order service reads.
#[derive(Deserialize)]
struct AttemptOnly {
    attempt: i32,
}

/// Runs the events of each order through the state machine, in the order of their arrival.
fn fold(states: Vec<State>, new: &[&Delivery]) -> anyhow::Result<Vec<Change>> {
    let mut orders = BTreeMap::new();
    for state in states {
        let status: Status = state.status.parse()?;
        let change = Change {
            id: state.id,
            version: state.version,
            status,
            steps: 0,
        };
        let attempt = state.attempt;
        orders.insert(state.id, Progress { attempt, change });
    }
    for delivery in new {
        let (id, event) = (delivery.envelope.subject, delivery.envelope.event_type);
        let correlation_id = &delivery.envelope.correlation_id;
        let Some(order) = orders.get_mut(&id) else {
            tracing::warn!(
                order_id = %id, %event, correlation_id,
                "event ignored: order not found"
            );
            continue;
        };
        let AttemptOnly { attempt } = serde_json::from_str(&delivery.envelope.payload)
            .with_context(|| format!("reading the attempt of {event} for order {id}"))?;
        if !order.apply(event, attempt) {
            let status = order.change.status;
            tracing::info!(
                order_id = %id, %event, attempt, %status, correlation_id,
                "stale event ignored"
            );
        }
    }
    Ok(orders
        .into_values()
        .map(|order| order.change)
        .filter(|change| change.steps > 0)
        .collect())
}

impl Progress {
    /// Returns whether the event changed anything. The outcome of an earlier attempt is stale.
    fn apply(&mut self, event: EventType, attempt: i32) -> bool {
        let status = self.change.status;
        let after = match next(status, event) {
            Some(after) if attempt >= self.attempt => after,
            _ => return false,
        };
        self.change.status = after;
        self.change.steps += status.steps_to(after);
        true
    }
}
