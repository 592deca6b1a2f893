//! The collector: OTLP over HTTP, as protobuf, on a port of its own.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1 as otlp;
use prost::Message as _;
use tokio::sync::Semaphore;

use super::Span;
use crate::app::App;

/// Largest batch of spans.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Attributes of a span that are kept, and the longest value.
const ATTRIBUTES_MAX: usize = 24;
const VALUE_LEN_MAX: usize = 256;
/// Copies on their way to another collector. Further batches are not copied.
const FORWARDS_MAX: usize = 4;
const FORWARD_TIMEOUT: Duration = Duration::from_secs(5);
const PROTOBUF: &str = "application/x-protobuf";

pub(crate) fn table(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/traces", post(receive))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(app)
}

async fn receive(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let content_type = headers.get(header::CONTENT_TYPE);
    if content_type.is_none_or(|it| it.as_bytes() != PROTOBUF.as_bytes()) {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE;
    }
    let Ok(request) = ExportTraceServiceRequest::decode(body.clone()) else {
        return StatusCode::BAD_REQUEST;
    };
    forward(&app, body);
    let followed: Vec<String> = app
        .hub
        .memory()
        .followed
        .iter()
        .map(ToString::to_string)
        .collect();
    let has_pages = app.hub.pages() > 0;
    for span in spans(request) {
        let mut traces = app.traces();
        if has_pages && let Some(it) = traces.moves.next(&span, &followed) {
            app.hub.moved(&it);
        }
        traces.add(span, &followed);
    }
    StatusCode::OK
}

/// Sends a copy to the other collector, without waiting for it.
fn forward(app: &Arc<App>, body: Bytes) {
    static FORWARDS: LazyLock<Arc<Semaphore>> =
        LazyLock::new(|| Arc::new(Semaphore::new(FORWARDS_MAX)));
    let Some(url) = &app.options.forward_spans_to else {
        return;
    };
    let Ok(permit) = Arc::clone(&FORWARDS).try_acquire_owned() else {
        return;
    };
    let request = app
        .http
        .post(format!("{}/v1/traces", url.trim_end_matches('/')))
        .timeout(FORWARD_TIMEOUT)
        .header(header::CONTENT_TYPE.as_str(), PROTOBUF)
        .body(body);
    app.background.spawn(async move {
        // If the other collector is down, it misses this copy; the console keeps its own.
        let _ = request.send().await;
        drop(permit);
    });
}

fn spans(request: ExportTraceServiceRequest) -> impl Iterator<Item = Span> {
    request
        .resource_spans
        .into_iter()
        .flat_map(|resource_spans| {
            let attributes = resource_spans.resource.unwrap_or_default().attributes;
            let service = attributes.into_iter().find(|it| it.key == "service.name");
            let service = service.and_then(|it| text(it.value)).unwrap_or_default();
            let scopes = resource_spans.scope_spans.into_iter();
            scopes
                .flat_map(|scope| scope.spans)
                .map(move |span| convert(&service, span))
        })
}

fn convert(service: &str, span: otlp::Span) -> Span {
    let attribute = |it: KeyValue| Some((it.key, text(it.value)?));
    let is_error = |status: &otlp::Status| status.code == otlp::status::StatusCode::Error as i32;
    Span {
        trace_id: hexadecimal(&span.trace_id),
        id: hexadecimal(&span.span_id),
        parent: Some(hexadecimal(&span.parent_span_id)).filter(|id| !id.is_empty()),
        service: service.to_owned(),
        name: short(span.name),
        start_us: span.start_time_unix_nano / 1_000,
        end_us: span.end_time_unix_nano / 1_000,
        error: span
            .status
            .filter(is_error)
            .map(|status| short(status.message)),
        attributes: span
            .attributes
            .into_iter()
            .filter_map(attribute)
            .take(ATTRIBUTES_MAX)
            .collect(),
    }
}

fn text(value: Option<AnyValue>) -> Option<String> {
    match value?.value? {
        Value::StringValue(text) => Some(short(text)),
        Value::BoolValue(value) => Some(value.to_string()),
        Value::IntValue(value) => Some(value.to_string()),
        Value::DoubleValue(value) => Some(value.to_string()),
        _ => None,
    }
}

fn short(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(VALUE_LEN_MAX) {
        text.truncate(end);
    }
    text
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
