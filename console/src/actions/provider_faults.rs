//! `/api/provider-faults`: faults of the mock provider, for the next charges.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use endpoints::Service;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{accepted, body};
use crate::app::App;
use crate::problem::Problem;
use crate::state::{Armed, MarkKind};

/// The beginning of the id of an armed fault.
pub(crate) const ID_PREFIX: &str = "fault:";

/// A fault that the page offers.
pub(crate) struct Fault {
    pub(crate) id: &'static str,
    pub(crate) label: &'static str,
    pub(crate) sentence: &'static str,
    body: fn() -> Value,
}

pub(crate) const FAULTS: [Fault; 8] = [
    Fault {
        id: "drop_after_charge",
        label: "Lose the response",
        sentence: "The provider takes the money, then the connection breaks: payment does not know the outcome.",
        body: || json!({"point": "after_charge", "action": "drop", "times": 1}),
    },
    Fault {
        id: "drop_before_charge",
        label: "Lose the request",
        sentence: "The connection breaks before the provider takes the money.",
        body: || json!({"point": "before_charge", "action": "drop", "times": 1}),
    },
    Fault {
        id: "hang",
        label: "Hang",
        sentence: "The provider accepts the next charge and never responds.",
        body: || json!({"point": "during_charge", "action": "hang", "times": 1}),
    },
    Fault {
        id: "slow",
        label: "Be slow",
        sentence: "The provider charges immediately and responds 5 s later, for the next 5 charges.",
        body: || json!({"point": "after_charge", "action": "delay", "delay_ms": 5_000, "times": 5}),
    },
    Fault {
        id: "error_500",
        label: "Fail after the charge",
        sentence: "The provider takes the money and responds with 500.",
        body: || json!({"point": "after_charge", "action": "error", "status": 500, "times": 1}),
    },
    Fault {
        id: "too_many_requests",
        label: "Limit the rate",
        sentence: "The provider rejects the next 3 charges with 429 and asks payment to wait 1 s.",
        body: || {
            json!({"point": "before_charge", "action": "error", "status": 429,
                   "retry_after_seconds": 1, "times": 3})
        },
    },
    Fault {
        id: "down",
        label: "Be down",
        sentence: "The provider responds to every charge with 503 until you disarm the faults.",
        body: || json!({"point": "before_charge", "action": "error", "status": 503}),
    },
    Fault {
        id: "drop_after_refund",
        label: "Lose the response to a refund",
        sentence: "The provider gives the money back, then the connection breaks.",
        body: || json!({"point": "after_refund", "action": "drop", "times": 1}),
    },
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    id: String,
}

pub(crate) async fn arm(
    State(app): State<Arc<App>>,
    request: Result<Json<Request>, JsonRejection>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    app.ready()?;
    let id = body(request)?.id;
    let fault = FAULTS.iter().find(|it| it.id == id);
    let fault = fault.ok_or_else(|| {
        Problem::not_found("No such fault. GET /api/catalog lists the provider's faults.")
    })?;
    let sent = app
        .operator
        .send(Method::POST, &url(&app), Some(&(fault.body)()))
        .await?;
    // The provider's own id of the fault shows later whether the fault was applied.
    let number = serde_json::from_str::<Value>(&sent)
        .ok()
        .and_then(|it| it["id"].as_u64());
    let number = number.map_or_else(String::new, |number| number.to_string());
    app.hub.memory().arm(Armed {
        id: format!("{ID_PREFIX}{id}:{number}"),
        label: format!("provider: {}", fault.label.to_lowercase()),
        service: Service::Psp.name().to_owned(),
    });
    let label = format!("provider fault: {}", fault.label.to_lowercase());
    app.hub
        .mark(MarkKind::Fault, label, Some(Service::Psp.name()), None);
    app.wake.notify_one();
    Ok(accepted())
}

pub(crate) async fn clear(
    State(app): State<Arc<App>>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    app.faults()?.clear().await?;
    let is_crash_point = |armed: &Armed| !armed.id.starts_with(ID_PREFIX);
    app.hub.memory().armed.retain(is_crash_point);
    let service = Some(Service::Psp.name());
    app.hub
        .mark(MarkKind::Heal, "provider faults cleared", service, None);
    app.wake.notify_one();
    Ok(accepted())
}

/// The route of the provider's faults.
pub(crate) fn url(app: &App) -> String {
    format!(
        "{}/admin/faults",
        app.endpoints().operator_url(Service::Psp)
    )
}
