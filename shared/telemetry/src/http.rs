//! An axum middleware: correlation id, server span, request metrics and one log line per request.

use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;

use crate::{Context, Kind, Span, metric};

pub const CORRELATION_ID: HeaderName = HeaderName::from_static("x-correlation-id");
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// An attribute for the server span. A handler puts it into the extensions of its response.
#[derive(Clone, Debug)]
pub struct SpanAttribute(pub &'static str, pub String);

/// The name that all unknown methods share in metrics, spans and logs, as OpenTelemetry asks for.
const OTHER_METHOD: &str = "_OTHER";
/// The route of every request that no route matches.
const UNMATCHED: &str = "unmatched";

/// The middleware. Add it around all routes: `axum::middleware::from_fn(telemetry::http::observe)`.
pub async fn observe(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = method_name(request.method());
    let route = match request.extensions().get::<MatchedPath>() {
        Some(path) => path.as_str().to_owned(),
        None => UNMATCHED.to_owned(),
    };
    let parent = text(request.headers(), &TRACEPARENT);
    let mut span = Span::start(format!("{method} {route}"), Kind::Server, parent);
    let context = Context::new(text(request.headers(), &CORRELATION_ID), span.traceparent());
    span.set("http.request.method", || method);
    span.set("http.route", || route.clone());
    span.set("correlation_id", || context.correlation_id.to_string());

    if let Some(key) = text(request.headers(), &IDEMPOTENCY_KEY) {
        span.set("idempotency.key", || key.to_owned());
    }

    let correlation_id = context.correlation_id.clone();
    let mut response = context.scope(next.run(request)).await;

    if let Some(SpanAttribute(name, value)) = response.extensions_mut().remove() {
        span.set(name, || value);
    }
    if response.headers().contains_key(REPLAYED) {
        span.set("idempotency.replayed", || true);
    }
    let status = response.status();
    span.set("http.response.status_code", || i64::from(status.as_u16()));
    if status.is_server_error() {
        span.fail(status.to_string());
        tracing::warn!(method, route, status = status.as_u16(), %correlation_id, "request failed");
    } else {
        tracing::debug!(method, route, status = status.as_u16(), %correlation_id, "request");
    }
    let labels = [
        ("method", method.to_owned()),
        ("route", route),
        ("status", status.as_str().to_owned()),
    ];
    metrics::counter!(metric::HTTP_REQUESTS, &labels).increment(1);
    metrics::histogram!(metric::HTTP_DURATION_SECONDS, &labels).record(started.elapsed());
    if let Ok(value) = HeaderValue::from_str(&correlation_id) {
        response.headers_mut().insert(CORRELATION_ID, value);
    }
    response
}

/// The method as a label. Every value of a label is a series that stays in memory, so a client must
/// not be able to invent values: HTTP allows any word as a method.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        Method::PATCH => "PATCH",
        Method::CONNECT => "CONNECT",
        Method::TRACE => "TRACE",
        _ => OTHER_METHOD,
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
