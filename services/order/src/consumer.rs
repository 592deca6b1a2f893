//! What payment and fulfilment announce, applied to the orders.

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
            // The rows are locked, so their versions cannot have moved.
            anyhow::ensure!(
                applied == expected,
                "{applied} of {expected} changes applied"
            );
        }
        Ok(())
    }
}

/// An order on its way through a batch.
struct Followed {
    attempt: i32,
    change: Change,
}

/// All that an order needs to know of an event besides its type.
#[derive(Deserialize)]
struct About {
    attempt: i32,
}

/// Runs each order's events through the state machine, in their order.
fn fold(states: Vec<State>, new: &[&Delivery]) -> anyhow::Result<Vec<Change>> {
    let mut followed = BTreeMap::new();
    for state in states {
        let status: Status = state.status.parse()?;
        let change = Change {
            id: state.id,
            version: state.version,
            status,
            steps: 0,
        };
        let attempt = state.attempt;
        followed.insert(state.id, Followed { attempt, change });
    }
    for delivery in new {
        let (id, event) = (delivery.envelope.subject, delivery.envelope.event_type);
        let correlation_id = &delivery.envelope.correlation_id;
        let Some(order) = followed.get_mut(&id) else {
            tracing::warn!(
                order_id = %id, %event, correlation_id,
                "an event about an order that is not here"
            );
            continue;
        };
        let about: About = serde_json::from_str(&delivery.envelope.payload)
            .with_context(|| format!("reading the attempt of {event} about {id}"))?;
        if !order.follow(event, about.attempt) {
            let (status, attempt) = (order.change.status, about.attempt);
            tracing::info!(order_id = %id, %event, attempt, %status, correlation_id, "a stale event");
        }
    }
    Ok(followed
        .into_values()
        .map(|order| order.change)
        .filter(|change| change.steps > 0)
        .collect())
}

impl Followed {
    /// Whether the event changed anything. What became of an attempt is of no interest once the
    /// next one is open.
    fn follow(&mut self, event: EventType, attempt: i32) -> bool {
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
