//! What the page can do. Every action needs the token.

pub(crate) mod crash_points;
pub(crate) mod kill_mid_charge;
pub(crate) mod place;
pub(crate) mod provider_faults;
pub(crate) mod reset;

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::system::PAYMENT_PSP;
use uuid::Uuid;

use crate::app::App;
use crate::controls::Action;
use crate::problem::Problem;
use crate::state::MarkKind;

/// A JSON body, or a problem that says what is wrong with it.
pub(crate) fn body<T>(body: Result<Json<T>, JsonRejection>) -> Result<T, Problem> {
    match body {
        Ok(Json(body)) => Ok(body),
        Err(error) => Err(Problem::bad_request(error.body_text())),
    }
}

pub(crate) fn accepted() -> (StatusCode, Json<Value>) {
    (StatusCode::ACCEPTED, Json(json!({})))
}

pub(crate) async fn process(
    State(app): State<Arc<App>>,
    Path((name, action)): Path<(String, String)>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    app.ready()?;
    let action = Action::parse(&action);
    let action =
        action.ok_or_else(|| Problem::not_found("Use one of the actions kill, pause, resume."))?;
    let (kind, done) = match action {
        Action::Kill => (MarkKind::Kill, "killed"),
        Action::Pause => (MarkKind::Pause, "paused"),
        Action::Resume => (MarkKind::Resume, "resumed"),
    };
    let label = format!("{name} {done}");
    // A kill is marked first: the death that follows it has its own mark.
    let is_early = action == Action::Kill && app.options.controls.can_kill(&name);
    if is_early {
        app.hub.mark(kind, &label, Some(&name), None);
    }
    app.options.controls.act(&name, action).await?;
    if !is_early {
        app.hub.mark(kind, &label, Some(&name), None);
    }
    app.wake.notify_one();
    Ok(accepted())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Follow {
    order_id: Uuid,
}

pub(crate) async fn follow(
    State(app): State<Arc<App>>,
    request: Result<Json<Follow>, JsonRejection>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    app.hub.follow(body(request)?.order_id);
    app.wake.notify_one();
    Ok(accepted())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Network {
    cut: String,
    on: bool,
}

pub(crate) async fn network(
    State(app): State<Arc<App>>,
    request: Result<Json<Network>, JsonRejection>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    app.ready()?;
    let request = body(request)?;
    if request.cut != PAYMENT_PSP {
        return Err(Problem::not_found(format!(
            "The only connection that can be cut is {PAYMENT_PSP}."
        )));
    }
    app.options.controls.cut(request.on).await?;
    app.hub.memory().is_cut = request.on;
    let (kind, label) = match request.on {
        true => (MarkKind::Fault, "network between payment and provider cut"),
        false => (
            MarkKind::Heal,
            "network between payment and provider healed",
        ),
    };
    app.hub.mark(kind, label, Some("payment"), None);
    app.wake.notify_one();
    Ok(accepted())
}
