//! A request for each row of the table.

use std::time::Instant;

use chrono::Utc;
use endpoints::operator::DEMO_TOKEN;
use reqwest::{Method, RequestBuilder};
use serde_json::json;
use testkit::ApiResponse;
use uuid::Uuid;

use super::{POLL, RECOVERY_MAX, RESPONSE_MAX};
use crate::api_client::{ACME, ApiClient, KEY, charge, send};

/// The ids that the requests name.
#[derive(Clone, Copy)]
pub(super) struct TargetIds {
    pub(super) payment: Uuid,
    /// A parked message to read and redrive.
    pub(super) kept: i64,
    /// A parked message to discard.
    pub(super) discarded: i64,
}

impl TargetIds {
    pub(super) fn none() -> Self {
        Self {
            payment: Uuid::nil(),
            kept: 1,
            discarded: 1,
        }
    }
}

/// A repeatable request, and the response that a healthy service gives to it.
pub(super) struct Call {
    request: RequestBuilder,
    pub(super) status_after: u16,
    /// Statuses that may come before that one while the service recovers.
    not_yet: &'static [u16],
}

impl Call {
    pub(super) fn new(
        client: &ApiClient,
        operators: &ApiClient,
        endpoint: &str,
        targets: TargetIds,
    ) -> Self {
        let (method, path) = endpoint.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let parked = match endpoint {
            "DELETE /admin/parked/{id}" => targets.discarded,
            _ => targets.kept,
        };
        let id = match path.starts_with("/admin/parked/") {
            true => parked.to_string(),
            false => targets.payment.to_string(),
        };
        let path = path.replace("{id}", &id).replace("{order_id}", &id);
        let path = path
            .replace("{attempt}", "9")
            .replace("{charge_id}", "ch_none");
        let request = match path.starts_with("/admin/") {
            true => {
                let request = operators.request(method, &path).bearer_auth(DEMO_TOKEN);
                request.header("x-reason", "a test")
            }
            false => client.request(method, &path).bearer_auth(ACME),
        };
        let (request, status_after, not_yet): (_, _, &[u16]) = match endpoint {
            // The chargers may need a moment longer than the request waits for them.
            "POST /payments" => {
                let request = request.header(KEY, "k-1").json(&charge());
                (request, 201, &[202, 409, 503])
            }
            "POST /admin/outbox/republish" => {
                let request = request.json(&json!({"since": Utc::now()}));
                (request, 200, &[503])
            }
            // There is no such attempt, refund or charge.
            "POST /admin/payments/{order_id}/attempts/{attempt}/resolution" => {
                let request = request.json(&json!({"outcome": "not_charged"}));
                (request, 404, &[503])
            }
            "POST /admin/refunds/{charge_id}/resolution" => {
                let request = request.json(&json!({"outcome": "not_refunded"}));
                (request, 404, &[503])
            }
            "POST /admin/unexplained-charges/{charge_id}" => {
                let request = request.json(&json!({"decision": "accept"}));
                (request, 404, &[503])
            }
            // No event of that order is held.
            "POST /admin/outbox/held/{order_id}/retry" => (request, 404, &[503]),
            // A new row that needs another request fails here, because it does not get 200.
            _ => (request, 200, &[503]),
        };
        Self {
            request,
            status_after,
            not_yet,
        }
    }

    pub(super) async fn send(&self) -> ApiResponse {
        bounded(self.request.try_clone().unwrap()).await
    }

    /// Repeats the request until the response is definite.
    pub(super) async fn send_until_definite(&self) -> ApiResponse {
        let started = Instant::now();
        loop {
            let response = self.send().await;
            if !self.not_yet.contains(&response.status) {
                return response;
            }
            assert!(started.elapsed() < RECOVERY_MAX, "still {response:?}");
            tokio::time::sleep(POLL).await;
        }
    }
}

pub(super) async fn bounded(request: RequestBuilder) -> ApiResponse {
    let sent = format!("{request:?}");
    let response = tokio::time::timeout(RESPONSE_MAX, send(request)).await;
    response.unwrap_or_else(|_| panic!("no response in time: {sent}"))
}
