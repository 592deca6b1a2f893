//! What an operator can ask of parked messages, over HTTP.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use service_kit::Problem;
use service_kit::database::{self, STORE_TIMEOUT};

use crate::consumer::Handler;
use crate::parked::{self, Summary};
use crate::redrive::{Discarded, Redriven};
use crate::work::Work;

/// Largest page; a larger limit is cut down to it.
const PAGE_ROWS_MAX: u32 = 1_000;
const PAGE_ROWS_DEFAULT: u32 = 100;
/// How soon to ask again when the database is away or the order is being worked on.
const RETRY_AFTER: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cursor {
    after: Option<i64>,
    limit: Option<u32>,
}

#[derive(Serialize)]
struct Page {
    data: Vec<Summary>,
    /// The next `after`; absent on the last page.
    next: Option<i64>,
}

#[derive(Serialize)]
struct Inspection {
    #[serde(flatten)]
    summary: Summary,
    /// Text where it is text; other bytes as `\x…`.
    key: Option<String>,
    headers: Vec<(String, Option<String>)>,
    payload: Option<String>,
}

#[derive(Serialize)]
struct Discard {
    discarded: bool,
    /// What became of the messages behind it.
    #[serde(flatten)]
    redriven: Redriven,
}

pub(crate) fn table<H: Handler>(work: Arc<Work<H>>) -> Router {
    Router::new()
        .route("/admin/parked", get(list::<H>))
        .route("/admin/parked/{id}", get(inspect::<H>).delete(discard::<H>))
        .route("/admin/parked/{id}/redrive", post(redrive::<H>))
        .with_state(work)
}

async fn list<H: Handler>(
    State(work): State<Arc<Work<H>>>,
    cursor: Result<Query<Cursor>, QueryRejection>,
) -> Result<Json<Page>, Problem> {
    let Query(cursor) = cursor.map_err(|error| bad_query(&error))?;
    let limit = cursor.limit.unwrap_or(PAGE_ROWS_DEFAULT);
    let limit = limit.clamp(1, PAGE_ROWS_MAX);
    let after = cursor.after.unwrap_or(0);
    // One row more than asked for tells whether there is a next page.
    let rows_max = i64::from(limit) + 1;
    let page = database::query_with_timeout(STORE_TIMEOUT, async {
        let mut connection = database::acquire(&work.pool).await?;
        parked::page(&mut connection, &work.settings.group, after, rows_max).await
    });
    let mut data = page.await.map_err(|error| problem(error.into()))?;
    let has_more = data.len() > limit as usize;
    data.truncate(limit as usize);
    let next = data.last().filter(|_| has_more).map(|row| row.id);
    Ok(Json(Page { data, next }))
}

async fn inspect<H: Handler>(
    State(work): State<Arc<Work<H>>>,
    Path(id): Path<String>,
) -> Result<Json<Inspection>, Problem> {
    let id = read_id(&id)?;
    let group = &work.settings.group;
    let found = database::with_timeout(STORE_TIMEOUT, async {
        let mut connection = database::acquire(&work.pool).await?;
        let summary = parked::summary(&mut connection, group, id).await?;
        anyhow::Ok(summary.zip(parked::find(&mut connection, group, id).await?))
    });
    let (summary, message) = found.await.map_err(problem)?.ok_or_else(unknown)?;
    let headers = message.wire.headers.iter();
    Ok(Json(Inspection {
        summary,
        key: message.wire.key.as_deref().map(text),
        headers: headers
            .map(|(name, value)| (name.clone(), value.as_deref().map(text)))
            .collect(),
        payload: message.wire.payload.as_deref().map(text),
    }))
}

/// Answers a repeat with zeros: there is nothing left to do.
async fn redrive<H: Handler>(
    State(work): State<Arc<Work<H>>>,
    Path(id): Path<String>,
) -> Result<Json<Redriven>, Problem> {
    let id = read_id(&id)?;
    let limit = work.settings.transaction_max;
    let redriven = in_time(limit, work.redrive(id)).await;
    redriven.map(Json).map_err(problem)
}

async fn discard<H: Handler>(
    State(work): State<Arc<Work<H>>>,
    Path(id): Path<String>,
) -> Result<Json<Discard>, Problem> {
    let id = read_id(&id)?;
    let limit = work.settings.transaction_max;
    match in_time(limit, work.discard(id)).await.map_err(problem)? {
        Discarded::Done(redriven) => Ok(Json(Discard {
            discarded: true,
            redriven,
        })),
        Discarded::Unknown => Ok(Json(Discard {
            discarded: false,
            redriven: Redriven::default(),
        })),
        Discarded::NotTheCulprit => Err(Problem::new(
            StatusCode::CONFLICT,
            "not_the_culprit",
            "This message only waits behind another of its order. Redrive or discard that one.",
        )),
    }
}

async fn in_time<T>(
    limit: Duration,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    tokio::time::timeout(limit, work).await?
}

fn read_id(id: &str) -> Result<i64, Problem> {
    id.parse().map_err(|_| unknown())
}

fn unknown() -> Problem {
    let detail = "No message is parked under this id. It may have been redriven or discarded.";
    Problem::new(StatusCode::NOT_FOUND, "no_such_parked_message", detail)
}

fn bad_query(error: &QueryRejection) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "invalid_query", error.body_text())
}

fn problem(error: anyhow::Error) -> Problem {
    let chain = format!("{error:#}");
    tracing::warn!(error = chain, "an operator's request failed");
    let is_transient = error.chain().any(|cause| {
        database::is_transient_cause(cause) || cause.is::<tokio::time::error::Elapsed>()
    });
    match is_transient {
        true => Problem::unavailable(RETRY_AFTER),
        false => Problem::internal(),
    }
}

fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes
            .iter()
            .fold("\\x".to_owned(), |text, byte| format!("{text}{byte:02x}")),
    }
}
