#![doc = include_str!("../README.md")]

pub mod context;
pub mod http;
mod logs;
pub mod metric;
pub mod span;
pub mod traceparent;

use std::time::Duration;

use anyhow::Context as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;

pub use context::Context;
pub use logs::Format;
pub use span::{Kind, Span};

/// Longest time that the last spans may take at the end. It comes on top of the time that the work in
/// hand is given, and a collector that hangs must not make an orchestrator lose its patience.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Settings of logs and traces, to be flattened into a service's own.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "telemetry")]
pub struct Settings {
    /// How log lines look: `json` for machines, `pretty` for people.
    #[arg(long, env = "LOG_FORMAT", default_value = "pretty")]
    pub log_format: Format,
    /// Base URL of an OTLP/HTTP collector. Unset: no spans are recorded, a caller's trace context
    /// is still passed along.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    pub otlp_endpoint: Option<String>,
}

/// Sends what is still buffered when the program ends. Keep it until then.
#[must_use = "dropping it at once would end tracing at once"]
pub struct Guard {
    provider: Option<SdkTracerProvider>,
}

/// Sets up logs, metrics and, with an endpoint, tracing for the whole process. Call it once.
pub fn init(service: &'static str, settings: &Settings) -> anyhow::Result<Guard> {
    logs::init(settings.log_format)?;
    metric::init()?;
    let Some(endpoint) = settings
        .otlp_endpoint
        .as_deref()
        .filter(|url| !url.is_empty())
    else {
        return Ok(Guard { provider: None });
    };
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
        .build()
        .context("building the OTLP exporter")?;
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(Resource::builder().with_service_name(service).build())
        .build();
    span::enable(&provider, service);
    Ok(Guard {
        provider: Some(provider),
    })
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(provider) = &self.provider
            && let Err(error) = provider.shutdown_with_timeout(FLUSH_TIMEOUT)
        {
            tracing::warn!(%error, "the last spans could not be sent");
        }
    }
}
