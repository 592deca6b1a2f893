//! `POST /api/reset`: empties the demo's data and keeps the system up.

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
            "The console cannot empty the containers' volumes. Run the command in a terminal.",
            "docker compose down -v && docker compose up -d --wait",
        ));
    };
    if !system.can_reset() {
        return Err(Problem::not_here(
            "The databases are on a server that the lab did not start, so it does not drop them.",
            "dropdb order && dropdb payment && dropdb fulfilment && dropdb receipt && dropdb psp",
        ));
    }
    app.ready()?;
    // It goes on if the page closes, and the console does not stop in the middle of it.
    let work = app.background.spawn(run(Arc::clone(&app), system));
    work.await.map_err(anyhow::Error::new)??;
    Ok(accepted())
}

async fn run(app: Arc<App>, system: Arc<System>) -> anyhow::Result<()> {
    {
        let mut memory = app.hub.memory();
        anyhow::ensure!(
            !memory.is_resetting,
            "the demo's data is already being emptied"
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
        .mark(MarkKind::Reset, "demo data emptied", None, None);
    app.wake.notify_one();
    app.check_now.notify_one();
    done
}
