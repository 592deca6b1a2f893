//! Operator routes for parked messages.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use operators::Operator;
use serde::{Deserialize, Serialize};
use service_kit::Problem;
use service_kit::database::{self, STORE_TIMEOUT};
use service_kit::request_error::operator_problem;

use crate::consumer::Handler;
use crate::parked;
use crate::parked::summary::{self, Summary};
use crate::processor::Processor;
use crate::redrive::{Discarded, Redriven};

/// Largest page; a larger limit is reduced to it.
const PAGE_ROWS_MAX: u32 = 1_000;
const PAGE_ROWS_DEFAULT: u32 = 100;

pub(crate) fn table<H: Handler>(processor: Arc<Processor<H>>) -> Router {
    Router::new()
        .route("/admin/parked", get(list::<H>))
        .route("/admin/parked/{id}", get(inspect::<H>).delete(discard::<H>))
        .route("/admin/parked/{id}/redrive", post(redrive::<H>))
        .with_state(processor)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cursor {
    after: Option<i64>,
    limit: Option<u32>,
}

#[derive(Serialize)]
struct Page {
    data: Vec<Summary>,
    /// Value of `after` for the next page; absent on the last page.
    next: Option<i64>,
}

#[derive(Serialize)]
struct Inspection {
    #[serde(flatten)]
    summary: Summary,
    /// UTF-8 as text, other bytes as `\x…` in hexadecimal. The same holds for headers and payload.
    key: Option<String>,
    headers: Vec<(String, Option<String>)>,
    payload: Option<String>,
}

#[derive(Serialize)]
struct DiscardResponse {
    discarded: bool,
    /// The result for the messages behind it.
    #[serde(flatten)]
    redriven: Redriven,
}

async fn list<H: Handler>(
    State(processor): State<Arc<Processor<H>>>,
    cursor: Result<Query<Cursor>, QueryRejection>,
) -> Result<Json<Page>, Problem> {
    let Query(cursor) = cursor.map_err(|error| bad_query(&error))?;
    let limit = cursor.limit.unwrap_or(PAGE_ROWS_DEFAULT);
    let limit = limit.clamp(1, PAGE_ROWS_MAX);
    let after = cursor.after.unwrap_or(0);
    // One extra row shows whether there is a next page.
    let rows_max = i64::from(limit) + 1;
    let page = database::query_with_timeout(STORE_TIMEOUT, async {
        let mut connection = database::acquire(&processor.pool).await?;
        summary::page(&mut connection, &processor.settings.group, after, rows_max).await
    });
    let mut data = page.await.map_err(operator_problem)?;
    let has_more = data.len() > limit as usize;
    data.truncate(limit as usize);
    let next = data.last().filter(|_| has_more).map(|row| row.id);
    Ok(Json(Page { data, next }))
}

async fn inspect<H: Handler>(
    State(processor): State<Arc<Processor<H>>>,
    Path(id): Path<String>,
) -> Result<Json<Inspection>, Problem> {
    let id = read_id(&id)?;
    let group = &processor.settings.group;
    let found = database::with_timeout(STORE_TIMEOUT, async {
        let mut connection = database::acquire(&processor.pool).await?;
        let summary = summary::find(&mut connection, group, id).await?;
        anyhow::Ok(summary.zip(parked::find(&mut connection, group, id).await?))
    });
    let (summary, message) = found.await.map_err(operator_problem)?.ok_or_else(unknown)?;
    let headers = message.raw.headers.iter();
    Ok(Json(Inspection {
        summary,
        key: message.raw.key.as_deref().map(text),
        headers: headers
            .map(|(name, value)| (name.clone(), value.as_deref().map(text)))
            .collect(),
        payload: message.raw.payload.as_deref().map(text),
    }))
}

/// A repeat returns zeros, because nothing is left to do.
async fn redrive<H: Handler>(
    State(processor): State<Arc<Processor<H>>>,
    Path(id): Path<String>,
    operator: Operator,
) -> Result<Json<Redriven>, Problem> {
    let id = read_id(&id)?;
    let limit = processor.settings.transaction_max;
    let redriven = database::with_timeout(limit, processor.redrive(id, &operator)).await;
    redriven.map(Json).map_err(operator_problem)
}

async fn discard<H: Handler>(
    State(processor): State<Arc<Processor<H>>>,
    Path(id): Path<String>,
    operator: Operator,
) -> Result<Json<DiscardResponse>, Problem> {
    let id = read_id(&id)?;
    let limit = processor.settings.transaction_max;
    match database::with_timeout(limit, processor.discard(id, &operator))
        .await
        .map_err(operator_problem)?
    {
        Discarded::Done(redriven) => Ok(Json(DiscardResponse {
            discarded: true,
            redriven,
        })),
        Discarded::Unknown => Ok(Json(DiscardResponse {
            discarded: false,
            redriven: Redriven::default(),
        })),
        Discarded::NotTheFailedMessage => Err(Problem::new(
            StatusCode::CONFLICT,
            "not_the_failed_message",
            "This message waits behind the failed message of its order. Redrive or discard that one.",
        )),
    }
}

fn read_id(id: &str) -> Result<i64, Problem> {
    id.parse().map_err(|_| unknown())
}

fn unknown() -> Problem {
    let detail = "No parked message has this id. It may have been redriven or discarded.";
    Problem::new(StatusCode::NOT_FOUND, "no_such_parked_message", detail)
}

fn bad_query(error: &QueryRejection) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "invalid_query", error.body_text())
}

fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => {
            let mut text = String::with_capacity(2 + 2 * bytes.len());
            text.push_str("\\x");
            for byte in bytes {
                text.push(hex_digit(byte >> 4));
                text.push(hex_digit(byte & 0xf));
            }
            text
        }
    }
}

fn hex_digit(value: u8) -> char {
    char::from_digit(value.into(), 16).unwrap_or('?')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_text_or_in_hexadecimal() {
        assert_eq!(text("é".as_bytes()), "é");
        assert_eq!(text(b"\x00\x9f\xff"), "\\x009fff");
    }

    /// With a cost that grows with the square of the length, this test does not end.
    #[test]
    fn long_payload_is_shown_in_linear_time() {
        let bytes = vec![0xff; 4 * 1024 * 1024];
        assert_eq!(text(&bytes).len(), 2 + 2 * bytes.len());
    }
}
