#![doc = include_str!("../README.md")]

pub mod context;
pub mod http;
mod logs;
pub mod metric;
mod sampler;
pub mod span;
pub mod traceparent;

use std::time::Duration;

use metrics_exporter_prometheus::BuildError;
use opentelemetry_otlp::{ExporterBuildError, Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;

pub use context::Context;
pub use logs::Format;
pub use span::{Kind, Span};

/// Longest time for sending the last spans at shutdown. It adds to the time for draining work. A
/// collector that hangs must not delay the exit until the orchestrator kills the process.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Settings of logs and traces. Flatten them into the settings of a service.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "telemetry")]
pub struct Settings {
    /// Format of log lines: `json` for machines, `pretty` for people.
    #[arg(long, env = "LOG_FORMAT", default_value = "pretty")]
    pub log_format: Format,
    /// Base URL of an OTLP/HTTP collector. If unset, no spans are recorded; the trace context of a
    /// caller is still forwarded.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    pub otlp_endpoint: Option<String>,
    /// New traces per second at most; 0 means no limit. Traces that a caller has begun are recorded as the
    /// caller decided, and reads are not recorded if there is a limit.
    #[arg(long, env = "TRACES_PER_SECOND_MAX", default_value_t = 0)]
    pub traces_per_second_max: u32,
}

/// Sends the buffered spans when dropped. Keep it until the program ends.
#[must_use = "dropping the guard stops tracing"]
pub struct Guard {
    provider: Option<SdkTracerProvider>,
}

/// Why telemetry could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot set up logs")]
    Logs(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("cannot set up metrics")]
    Metrics(#[from] BuildError),
    #[error("cannot build the OTLP exporter")]
    Exporter(#[from] ExporterBuildError),
}

/// Sets up logs, metrics and, if an endpoint is set, traces for the whole process. Call it once.
pub fn init(service: &'static str, settings: &Settings) -> Result<Guard, Error> {
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
        .build()?;
    let provider = SdkTracerProvider::builder()
        .with_sampler(sampler::of(settings.traces_per_second_max))
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
            tracing::warn!(%error, "spans lost: export at shutdown failed");
        }
    }
}
