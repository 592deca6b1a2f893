//! One order is one trace: from the client's request to `shipped`, over HTTP, outbox, Kafka and the
//! provider.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use endpoints::{PerService, Service};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use testkit::order_spans::ORDER_SPANS;
use testkit::system::SystemOptions;
use tokio::net::TcpListener;

use crate::harness::{Harness, SETTLE_TIMEOUT, options};

type Spans = Arc<Mutex<Vec<(String, Span)>>>;

const CLIENT_TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CLIENT_SPAN: &str = "b7ad6b7169203331";

/// The services whose spans show the time in their outbox.
const OUTBOX_WAITS: [(&str, &str); 3] = [
    ("order", "outbox.wait_ms"),
    ("payment", "outbox.wait_ms"),
    ("fulfilment", "outbox.wait_ms"),
];

#[tokio::test]
async fn one_order_is_one_trace_from_request_to_shipment() -> anyhow::Result<()> {
    let (endpoint, spans) = collect_spans().await?;
    let harness = Harness::start(traced(&endpoint)).await?;
    let order = place_traced(&harness).await?;
    harness.expect_shipped_once(&[order]).await?;

    let deadline = tokio::time::Instant::now() + SETTLE_TIMEOUT;
    loop {
        match check_trace(&spans.lock().unwrap(), &order.to_string()) {
            Ok(()) => break,
            Err(reason) if tokio::time::Instant::now() > deadline => anyhow::bail!(reason),
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    harness.stop().await
}

#[tokio::test]
async fn silent_collector_delays_no_order_and_no_stop() -> anyhow::Result<()> {
    // The kernel accepts connections, and nothing reads from them.
    let hanging = TcpListener::bind("127.0.0.1:0").await?;
    let endpoint = format!("http://{}", hanging.local_addr()?);
    let mut options = traced(&endpoint);
    // The exporter itself would wait for ten minutes.
    let patience = ("OTEL_EXPORTER_OTLP_TIMEOUT", "600000");
    let psp = &mut options.env.psp;
    psp.push((patience.0.to_owned(), patience.1.to_owned()));
    let harness = Harness::start(options).await?;
    let orders = harness.place_many(3).await?;
    harness.expect_shipped_once(&orders).await?;
    let connected = tokio::time::timeout(SETTLE_TIMEOUT, hanging.accept()).await;
    connected.context("no service sent a span")??;

    // The provider has no work, so only its spans can delay its stop. A process that does not stop is killed.
    let psp = Service::Psp.name();
    harness.system.stop_service(psp).await?;
    let processes = harness.system.processes();
    let stopped = processes.iter().find(|process| process.name == psp);
    let exit = stopped.and_then(|process| process.last_exit);
    assert_eq!(exit.and_then(|exit| exit.code()), Some(0), "{exit:?}");
    harness.stop().await
}

/// Options under which every service sends its spans to this endpoint soon.
fn traced(endpoint: &str) -> SystemOptions {
    let mut options = options();
    options.env = PerService::from_fn(|service| {
        let mut env = options.env.get(service).clone();
        env.push((
            "OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(),
            endpoint.to_owned(),
        ));
        env.push(("OTEL_BSP_SCHEDULE_DELAY".to_owned(), "100".to_owned()));
        env
    });
    options
}

async fn place_traced(harness: &Harness) -> anyhow::Result<uuid::Uuid> {
    let response = reqwest::Client::new()
        .post(format!("{}/orders", harness.system.url(Service::Order)))
        .bearer_auth("demo-key-acme")
        .header("idempotency-key", endpoints::client::new_key("trace"))
        .header("traceparent", format!("00-{CLIENT_TRACE}-{CLIENT_SPAN}-01"))
        .header("x-correlation-id", "corr-e2e")
        .header("content-type", "application/json")
        .body(endpoints::client::order_body(2))
        .send()
        .await?;
    assert_eq!(response.headers()["x-correlation-id"], "corr-e2e");
    let order: serde_json::Value = serde_json::from_str(&response.text().await?)?;
    Ok(order["order_id"].as_str().unwrap_or_default().parse()?)
}

/// An OTLP/HTTP collector that keeps the spans it receives.
async fn collect_spans() -> anyhow::Result<(String, Spans)> {
    let spans = Spans::default();
    let router = Router::new()
        .route("/v1/traces", post(receive))
        .with_state(spans.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok((endpoint, spans))
}

async fn receive(State(spans): State<Spans>, body: Bytes) {
    let request = ExportTraceServiceRequest::decode(body).expect("an OTLP request");
    let mut spans = spans.lock().unwrap();
    for resource_spans in request.resource_spans {
        let attributes = resource_spans.resource.unwrap_or_default().attributes;
        let service = attributes
            .iter()
            .find(|attribute| attribute.key == "service.name");
        let service = service.and_then(|attribute| text(attribute.value.clone()));
        for scope_spans in resource_spans.scope_spans {
            let owned = scope_spans.spans.into_iter();
            spans.extend(owned.map(|span| (service.clone().unwrap_or_default(), span)));
        }
    }
}

/// Checks that one trace has all expected spans, and that each descends from the client's span.
fn check_trace(spans: &[(String, Span)], order: &str) -> Result<(), String> {
    let trace: Vec<&(String, Span)> = spans
        .iter()
        .filter(|(_, span)| hex(&span.trace_id) == CLIENT_TRACE)
        .collect();
    let by_id: HashMap<String, &Span> = trace
        .iter()
        .map(|(_, span)| (hex(&span.span_id), span))
        .collect();
    let mut seen: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for (service, span) in &trace {
        for name in names(span) {
            *seen.entry((service, name)).or_default() += 1;
        }
        if !leads_to_client(span, &by_id) {
            return Err(format!(
                "{service}: {} does not descend from the client's span",
                span.name
            ));
        }
    }
    for (service, name) in ORDER_SPANS.into_iter().chain(OUTBOX_WAITS) {
        if !seen.contains_key(&(service, name.to_owned())) {
            return Err(format!(
                "no span {name:?} of {service} in the trace, only {seen:#?}"
            ));
        }
    }
    let request = trace.iter().find(|(_, span)| span.name == "POST /orders");
    if request
        .and_then(|(_, span)| attribute(span, "order.id"))
        .as_deref()
        != Some(order)
    {
        return Err("the order's id is not on the span of its request".to_owned());
    }
    let charge = trace.iter().find(|(service, span)| {
        service == "payment" && attribute(span, "idempotency.key").is_some()
    });
    let key = charge.and_then(|(_, span)| attribute(span, "idempotency.key"));
    if key != Some(format!("pay:{order}:1")) {
        return Err(format!("the charge's key is not on its span: {key:?}"));
    }
    Ok(())
}

/// The names of a span. A message's span is named by its event, since all events share one topic.
fn names(span: &Span) -> Vec<String> {
    let mut names = match (span.name.split(' ').next(), attribute(span, "event.type")) {
        (Some(verb), Some(event)) => vec![format!("{verb} {event}")],
        _ => vec![span.name.clone()],
    };
    if span
        .attributes
        .iter()
        .any(|attribute| attribute.key == "outbox.wait_ms")
    {
        names.push("outbox.wait_ms".to_owned());
    }
    names
}

fn leads_to_client(span: &Span, by_id: &HashMap<String, &Span>) -> bool {
    let mut parent = hex(&span.parent_span_id);
    for _ in 0..by_id.len() {
        if parent == CLIENT_SPAN {
            return true;
        }
        match by_id.get(&parent) {
            Some(span) => parent = hex(&span.parent_span_id),
            None => return false,
        }
    }
    parent == CLIENT_SPAN
}

fn attribute(span: &Span, name: &str) -> Option<String> {
    let found = span
        .attributes
        .iter()
        .find(|attribute| attribute.key == name)?;
    text(found.value.clone())
}

fn text(value: Option<opentelemetry_proto::tonic::common::v1::AnyValue>) -> Option<String> {
    match value?.value? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
