//! The checks of outcomes: concurrent requests, shipped orders, and charges in the provider's books.

use std::collections::HashSet;
use std::time::Duration;

use sqlx::PgPool;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::checklist::Checklist;
use endpoints::client::{Client, new_key, order_body};
use endpoints::provider;

const PARALLEL: usize = 20;

/// An accepted order and the client of its tenant: no other tenant may read it.
#[derive(Clone)]
pub(super) struct Accepted {
    pub(super) owner: Client,
    pub(super) id: Uuid,
}

/// Sends twenty copies of one request in parallel, and retries each as a client would. Returns every
/// order id that came back, so that a second order would also be counted in the books.
pub(super) async fn parallel(checklist: &mut Checklist, client: &Client) -> Vec<Accepted> {
    let (key, body) = (new_key("verify-parallel"), order_body(1));
    let mut copies = JoinSet::new();
    for _ in 0..PARALLEL {
        let (client, key, body) = (client.clone(), key.clone(), body.clone());
        copies.spawn(async move { client.place(&key, &body).await });
    }
    let mut accepted = Vec::new();
    let mut others = Vec::new();
    for joined in copies.join_all().await {
        match joined {
            Ok(response) if response.is_accepted() => accepted.push(response),
            Ok(response) => others.push(response.summary()),
            Err(error) => others.push(format!("{error:#}")),
        }
    }
    let ids: HashSet<Uuid> = accepted
        .iter()
        .filter_map(|response| response.order_id().ok())
        .collect();
    let bodies: HashSet<&str> = accepted
        .iter()
        .map(|response| response.body.as_str())
        .collect();
    let originals = accepted
        .iter()
        .filter(|response| !response.replayed)
        .count();
    checklist.check(
        "20 concurrent requests with one key get the same response",
        if accepted.len() == PARALLEL && ids.len() == 1 && bodies.len() == 1 {
            Ok(format!("{PARALLEL} × 201, one order"))
        } else {
            Err(format!(
                "{} accepted, {} orders, {} bodies, others: {others:?}",
                accepted.len(),
                ids.len(),
                bodies.len()
            ))
        },
    );
    checklist.check(
        "exactly one of them creates the order, the rest are replays",
        if originals == 1 {
            Ok(format!("1 original, {} replays", accepted.len() - 1))
        } else {
            Err(format!("{originals} originals"))
        },
    );
    ids.into_iter()
        .map(|id| Accepted {
            owner: client.clone(),
            id,
        })
        .collect()
}

pub(super) async fn shipped(checklist: &mut Checklist, orders: &[Accepted], within: Duration) {
    let mut waits = JoinSet::new();
    for Accepted { owner, id } in orders.iter().cloned() {
        waits.spawn(async move { owner.wait_for_status(id, "shipped", within).await });
    }
    let failures: Vec<String> = waits
        .join_all()
        .await
        .into_iter()
        .filter_map(Result::err)
        .map(|error| format!("{error:#}"))
        .collect();
    checklist.check(
        "every accepted order ships",
        if failures.is_empty() {
            Ok(format!("{} orders", orders.len()))
        } else {
            Err(failures.join("; "))
        },
    );
}

pub(super) async fn charged_once(checklist: &mut Checklist, psp: &PgPool, orders: &[Accepted]) {
    let ids: Vec<Uuid> = orders.iter().map(|order| order.id).collect();
    let seen = match provider::charges_per_order(psp, &ids).await {
        Ok(counts) if counts.values().all(|count| *count == 1) => {
            Ok(format!("{} orders", counts.len()))
        }
        Ok(counts) => Err(format!("charges per order: {counts:?}")),
        Err(error) => Err(format!("{error:#}")),
    };
    checklist.check(
        "the provider's books have count(*) = 1 charge for each order",
        seen,
    );
}
