//! What payment and fulfilment announce, applied to the orders.

use std::collections::BTreeMap;

use anyhow::Context as _;
use events::EventType;
use inbox::{Delivery, Handler};
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

/// Runs each order's events through the state machine, in their order.
fn fold(states: Vec<State>, new: &[&Delivery]) -> anyhow::Result<Vec<Change>> {
    let mut folded = BTreeMap::new();
    for state in states {
        let status: Status = state.status.parse()?;
        let change = Change {
            id: state.id,
            version: state.version,
            status,
            steps: 0,
        };
        folded.insert(state.id, change);
    }
    for delivery in new {
        let (id, event) = (delivery.envelope.subject, delivery.envelope.event_type);
        let correlation_id = &delivery.envelope.correlation_id;
        let Some(change) = folded.get_mut(&id) else {
            tracing::warn!(
                order_id = %id, %event, correlation_id,
                "an event about an order that is not here"
            );
            continue;
        };
        match next(change.status, event) {
            Some(status) => {
                change.status = status;
                change.steps += 1;
            }
            None => {
                let status = change.status;
                tracing::info!(order_id = %id, %event, %status, correlation_id, "a stale event");
            }
        }
    }
    Ok(folded
        .into_values()
        .filter(|change| change.steps > 0)
        .collect())
}
