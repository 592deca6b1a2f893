//! A request for each row of the table.

use std::time::Instant;

use chrono::Utc;
use reqwest::{Method, RequestBuilder};
use serde_json::json;
use uuid::Uuid;

use super::{ANSWER_MAX, POLL, RECOVERY_MAX};
use crate::front::{ACME, Answer, Caller, KEY, charge, send};

/// What the requests are about.
#[derive(Clone, Copy)]
pub(super) struct Subjects {
    pub(super) payment: Uuid,
    /// A parked message that is looked at and redriven.
    pub(super) kept: i64,
    /// One that is discarded.
    pub(super) discarded: i64,
}

impl Subjects {
    pub(super) fn none() -> Self {
        Self {
            payment: Uuid::nil(),
            kept: 1,
            discarded: 1,
        }
    }
}

/// A request that can be sent again, and how it is answered by a service that is well.
pub(super) struct Call {
    request: RequestBuilder,
    pub(super) after: u16,
    /// What it may be answered before.
    not_yet: &'static [u16],
}

impl Call {
    pub(super) fn of(caller: &Caller, endpoint: &str, subjects: Subjects) -> Self {
        let (method, path) = endpoint.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let parked = match endpoint {
            "DELETE /admin/parked/{id}" => subjects.discarded,
            _ => subjects.kept,
        };
        let id = match path.starts_with("/admin/parked/") {
            true => parked.to_string(),
            false => subjects.payment.to_string(),
        };
        let path = path.replace("{id}", &id).replace("{order_id}", &id);
        let request = caller.request(method, &path).bearer_auth(ACME);
        let (request, after, not_yet): (_, _, &[u16]) = match endpoint {
            // The chargers may need a moment longer than the request waits for them.
            "POST /payments" => {
                let request = request.header(KEY, "k-1").json(&charge());
                (request, 201, &[202, 409, 503])
            }
            "POST /admin/outbox/republish" => {
                let request = request.json(&json!({"since": Utc::now()}));
                (request, 200, &[503])
            }
            // A new row that needs more than this is not answered 200 afterwards, and so not missed.
            _ => (request, 200, &[503]),
        };
        Self {
            request,
            after,
            not_yet,
        }
    }

    pub(super) async fn answer(&self) -> Answer {
        bounded(self.request.try_clone().unwrap()).await
    }

    /// The answer once there is one that is not to be asked for again.
    pub(super) async fn answer_of_the_well(&self) -> Answer {
        let started = Instant::now();
        loop {
            let answer = self.answer().await;
            if !self.not_yet.contains(&answer.status) {
                return answer;
            }
            assert!(started.elapsed() < RECOVERY_MAX, "still {answer:?}");
            tokio::time::sleep(POLL).await;
        }
    }
}

pub(super) async fn bounded(request: RequestBuilder) -> Answer {
    let what = format!("{request:?}");
    let answer = tokio::time::timeout(ANSWER_MAX, send(request)).await;
    answer.unwrap_or_else(|_| panic!("no answer in time: {what}"))
}
