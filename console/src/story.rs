//! `GET /api/orders/{id}`: one order's story and its trace.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::app::App;
use crate::queries;
use crate::spans::waterfall;

/// None if no such order exists.
pub(crate) async fn read(app: &App, id: Uuid) -> anyhow::Result<Option<Value>> {
    let databases = &app.pools.databases;
    let rows = queries::by_id(&databases.order, &[id]).await?;
    let lines = queries::lines(&databases.psp, &rows, &[]).await?;
    let Some(line) = lines.first() else {
        return Ok(None);
    };
    let spans = app.traces().of_order(&id.to_string());
    let trace = waterfall::of(&spans);
    let jaeger_url = app.options.jaeger_url.as_ref();
    let jaeger_url = jaeger_url
        .zip(spans.first())
        .map(|(url, span)| format!("{}/trace/{}", url.trim_end_matches('/'), span.trace_id));
    Ok(Some(json!({
        "order_id": id, "status": line.status, "summary": "", "key": null, "fingerprint": null,
        "reference": null, "charges_in_books": line.charges, "refunds_in_books": 0, "steps": [],
        "trace": trace, "jaeger_url": jaeger_url,
    })))
}
