//! `POST /api/reset`: deletes the demo's data and starts the services again.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::Value;
use testkit::system::System;

use super::accepted;
use crate::app::App;
use crate::problem::Problem;
use crate::state::MarkKind;

pub(crate) async fn handle(
    State(app): State<Arc<App>>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let Some(system) = app.options.controls.system().map(Arc::clone) else {
        return Err(Problem::not_here(
            "The console cannot delete the containers' volumes. Run the command in a terminal.",
            "docker compose down -v && docker compose up -d --wait",
        ));
    };
    if !system.can_reset() {
        return Err(Problem::not_here(
            "The lab does not drop databases on a server that it did not start. Drop them in a terminal.",
            "dropdb order && dropdb payment && dropdb fulfilment && dropdb receipt && dropdb psp",
        ));
    }
    app.ready()?;
    // The reset continues if the page closes, and the console waits for it before it stops.
    let work = app.background.spawn(run(Arc::clone(&app), system));
    work.await.map_err(anyhow::Error::new)??;
    Ok(accepted())
}

async fn run(app: Arc<App>, system: Arc<System>) -> anyhow::Result<()> {
    {
        let mut memory = app.hub.memory();
        anyhow::ensure!(
            !memory.is_resetting,
            "the demo's data is already being deleted"
        );
        memory.is_resetting = true;
    }
    let done = system.reset().await;
    app.traces().clear();
    {
        let mut memory = app.hub.memory();
        memory.forget_orders();
        memory.is_resetting = false;
        memory.resets += 1;
    }
    *app.proof() = Default::default();
    app.hub
        .mark(MarkKind::Reset, "demo data deleted", None, None);
    app.wake.notify_one();
    app.check_now.notify_one();
    done
}
