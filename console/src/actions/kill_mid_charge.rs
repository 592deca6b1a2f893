//! `POST /api/scenario/kill-mid-charge`: payment dies after the provider took the money and before payment
//! recorded it.
//!
//! The provider holds its response to this one order, and payment is killed when the provider's books show
//! the charge. Where the console cannot kill, a crash point kills payment at the same place.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use endpoints::Service;
use endpoints::client::order_body;
use endpoints::provider::{self, Fault};
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use super::crash_points;
use crate::app::{API_KEY, App};
use crate::controls::Action;
use crate::problem::Problem;
use crate::sampler::metrics;
use crate::state::MarkKind;

/// How long the provider holds its response: far longer than it takes to see the charge and kill.
const RESPONSE_DELAY_MS: u64 = 8_000;
const CHARGED_WITHIN: Duration = Duration::from_secs(20);
const CHARGE_POLL_INTERVAL: Duration = Duration::from_millis(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
const PLACED_WITHIN: Duration = Duration::from_secs(20);
const PLACE_PAUSE: Duration = Duration::from_millis(200);
/// The crash point between the provider's response and its record: window 10.
const AFTER_CHARGE: &str = "charge.answered";
/// Payment's gauge of calls to the provider that are in flight.
const IN_FLIGHT_GAUGE: &str = "charges_in_flight";

pub(crate) async fn handle(State(app): State<Arc<App>>) -> Result<Json<Value>, Problem> {
    app.ready()?;
    let order = Uuid::now_v7();
    app.hub.follow(order);
    // The scenario runs to its end even if the page closes: the provider must not keep the fault.
    let work = app.background.spawn(run(Arc::clone(&app), order));
    work.await.map_err(anyhow::Error::new)??;
    Ok(Json(json!({ "order_id": order })))
}

async fn run(app: Arc<App>, order: Uuid) -> Result<(), Problem> {
    if !app.options.controls.can_kill(Service::Payment.name()) {
        return by_crash_point(&app, order).await;
    }
    let faults = app.faults()?;
    let hold = Fault {
        point: "after_charge",
        action: "delay",
        delay_ms: Some(RESPONSE_DELAY_MS),
        times: Some(1),
        reference: Some(order.to_string()),
    };
    faults.arm(&hold).await?;
    let killed = kill_in_flight(&app, order).await;
    // The next call must find a healthy provider, even if the kill failed.
    faults.clear_for(order).await?;
    app.wake.notify_one();
    killed
}

async fn kill_in_flight(app: &App, order: Uuid) -> Result<(), Problem> {
    place(app, order).await?;
    wait_for_charge(app, order).await?;
    let name = caller(app).await;
    let label = format!("{name} killed after the charge, before it recorded the charge");
    app.hub
        .mark(MarkKind::Kill, label, Some(&name), Some(order));
    app.options.controls.act(&name, Action::Kill).await
}

async fn by_crash_point(app: &App, order: Uuid) -> Result<(), Problem> {
    let service = Service::Payment.name();
    let armed = crash_points::arm_point(app, service, AFTER_CHARGE).await;
    armed.map_err(|problem| match problem.status() {
        StatusCode::CONFLICT => Problem::not_here(
            "The console can neither kill payment nor arm a crash point. Run the script in a terminal.",
            "scripts/chaos/kill-payment-mid-charge.sh",
        ),
        _ => problem,
    })?;
    let label = "payment dies after the charge, before it records the charge";
    app.hub
        .mark(MarkKind::Arm, label, Some(service), Some(order));
    place(app, order).await
}

/// Places the order with an id that the console chose, so that a fault can be armed for this order only. The
/// id also makes a retry safe: a service that has just lost its database returns 503 for a moment.
async fn place(app: &App, order: Uuid) -> Result<(), Problem> {
    let deadline = Instant::now() + PLACED_WITHIN;
    loop {
        match put(app, order).await {
            Ok(_) => break,
            Err(error) if Instant::now() < deadline && is_retryable(&error) => {
                tokio::time::sleep(PLACE_PAUSE).await;
            }
            Err(error) => {
                return Err(anyhow::Error::new(error)
                    .context("placing the order")
                    .into());
            }
        }
    }
    app.hub.memory().remember_accepted(order);
    Ok(())
}

async fn put(app: &App, order: Uuid) -> reqwest::Result<reqwest::Response> {
    let url = format!("{}/orders/{order}", app.endpoints().url(Service::Order));
    let trace = Uuid::new_v4().simple();
    let parent = format!("00-{trace}-{:016x}-01", rand::random_range(1..u64::MAX));
    app.http
        .put(url)
        .timeout(REQUEST_TIMEOUT)
        .bearer_auth(API_KEY)
        .header("content-type", "application/json")
        .header("traceparent", parent)
        .body(order_body(2))
        .send()
        .await?
        .error_for_status()
}

/// A lost response and a 5xx leave the outcome unknown.
fn is_retryable(error: &reqwest::Error) -> bool {
    error.status().is_none_or(|status| status.is_server_error())
}

async fn wait_for_charge(app: &App, order: Uuid) -> anyhow::Result<()> {
    let deadline = Instant::now() + CHARGED_WITHIN;
    loop {
        let counts = provider::charges_per_order(&app.pools.databases.psp, &[order]).await?;
        if counts.get(&order).is_some_and(|count| *count > 0) {
            return Ok(());
        }
        anyhow::ensure!(
            Instant::now() < deadline,
            "the provider did not charge order {order} within {} s",
            CHARGED_WITHIN.as_secs()
        );
        tokio::time::sleep(CHARGE_POLL_INTERVAL).await;
    }
}

/// The replica of payment that waits for the provider.
async fn caller(app: &App) -> String {
    let urls = &app.endpoints().urls.payment;
    for (index, url) in urls.iter().enumerate() {
        let text = metrics::fetch(&app.http, url).await.unwrap_or_default();
        if metrics::sum(&text, IN_FLIGHT_GAUGE) > 0.0 {
            return replica_name(Service::Payment, index);
        }
    }
    Service::Payment.name().to_owned()
}

/// The process name of a replica, as the supervisor and compose count them.
pub(crate) fn replica_name(service: Service, index: usize) -> String {
    match index {
        0 => service.name().to_owned(),
        _ => format!("{service}-{}", index + 1),
    }
}
