//! `/api/crash-points`: arms and disarms crash points.

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
use crate::catalog;
use crate::problem::Problem;
use crate::state::{Armed, MarkKind};

/// The beginning of the id of an armed crash point.
pub(crate) const ID_PREFIX: &str = "crash:";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    service: String,
    point: String,
}

pub(crate) async fn arm(
    State(app): State<Arc<App>>,
    request: Result<Json<Request>, JsonRejection>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    app.ready()?;
    let Request { service, point } = body(request)?;
    let known = catalog::crash_points();
    let known = known
        .iter()
        .find(|it| it.service == service && it.point == point);
    let known = known.ok_or_else(|| {
        Problem::not_found("No such crash point. GET /api/catalog lists the crash points.")
    })?;
    arm_point(&app, &service, &point).await?;
    let label = format!("{service} dies {}", known.sentence);
    app.hub.mark(MarkKind::Arm, &label, Some(&service), None);
    app.wake.notify_one();
    Ok(accepted())
}

/// Arms the point in every replica of the service.
pub(crate) async fn arm_point(app: &App, service: &str, point: &str) -> Result<(), Problem> {
    let request = json!({ "name": point, "action": "kill" });
    for url in urls(app, service) {
        let request = app.operator.request(Method::POST, &url).json(&request);
        let sent = request.send().await.map_err(anyhow::Error::new)?;
        if sent.status() == reqwest::StatusCode::NOT_FOUND {
            let detail =
                "The services were built without crash points. Build them again with the command.";
            let instead = "cargo build --features order/crash-points,payment/crash-points,\
                           fulfilment/crash-points,receipt/crash-points";
            return Err(Problem::not_here(detail, instead));
        }
        sent.error_for_status().map_err(anyhow::Error::new)?;
    }
    let known = catalog::crash_points();
    let known = known
        .iter()
        .find(|it| it.service == service && it.point == point);
    app.hub.memory().arm(Armed {
        id: format!("{ID_PREFIX}{service}:{point}"),
        label: known.map_or_else(String::new, |it| format!("{service} dies {}", it.sentence)),
        service: service.to_owned(),
    });
    Ok(())
}

pub(crate) async fn disarm(
    State(app): State<Arc<App>>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    for service in Service::ALL {
        for url in urls(&app, service.name()) {
            // A service that is down, or was built without crash points, has nothing armed.
            let _ = app.operator.request(Method::DELETE, &url).send().await;
        }
    }
    let is_fault = |armed: &Armed| !armed.id.starts_with(ID_PREFIX);
    app.hub.memory().armed.retain(is_fault);
    app.hub
        .mark(MarkKind::Heal, "crash points disarmed", None, None);
    app.wake.notify_one();
    Ok(accepted())
}

fn urls(app: &App, service: &str) -> Vec<String> {
    let service = Service::ALL.into_iter().find(|it| it.name() == service);
    let urls = service.map(|it| app.endpoints().operator_urls.get(it).as_slice());
    let urls = urls.unwrap_or_default().iter();
    urls.map(|url| format!("{url}/admin/crash-points"))
        .collect()
}
