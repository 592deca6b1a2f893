//! Spans whose parent comes as text: from a header, an outbox row or a message.
//!
//! Most spans here start after the code of their parent has returned, often in another process. So a
//! span takes its parent as a `traceparent` and returns one to store; it does not use the call stack.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::SystemTime;

use opentelemetry::trace::{Span as _, Status, TraceContextExt as _, Tracer as _, TracerProvider};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span as SdkSpan};

pub use opentelemetry::trace::SpanKind as Kind;

use crate::traceparent;

static TRACER: OnceLock<SdkTracer> = OnceLock::new();

pub(crate) fn enable(provider: &SdkTracerProvider, service: &'static str) {
    // Never set twice: the second `init` fails at the logs.
    let _ = TRACER.set(provider.tracer(service));
}

/// A span. It ends when dropped. Without a collector it records nothing and forwards its parent.
pub struct Span {
    recording: Option<SdkSpan>,
    /// The parent's `traceparent`, forwarded when nothing is recorded.
    forwarded: Option<String>,
}

impl Span {
    pub fn start(name: impl Into<Cow<'static, str>>, kind: Kind, parent: Option<&str>) -> Self {
        Self::start_at(name, kind, parent, None)
    }

    /// As [`Span::start`], with a start in the past: the span then includes the time spent waiting.
    pub fn start_at(
        name: impl Into<Cow<'static, str>>,
        kind: Kind,
        parent: Option<&str>,
        start: Option<SystemTime>,
    ) -> Self {
        let Some(tracer) = TRACER.get() else {
            return Self {
                recording: None,
                // Only if well-formed, because it is stored and sent to others.
                forwarded: parent
                    .filter(|it| traceparent::parse(it).is_some())
                    .map(str::to_owned),
            };
        };
        let parent = match parent.and_then(traceparent::parse) {
            Some(remote) => Context::new().with_remote_span_context(remote),
            None => Context::new(),
        };
        let mut builder = tracer.span_builder(name).with_kind(kind);
        if let Some(start) = start {
            builder = builder.with_start_time(start);
        }
        Self {
            recording: Some(builder.start_with_context(tracer, &parent)),
            forwarded: None,
        }
    }

    /// The `traceparent` for the next hop.
    pub fn traceparent(&self) -> Option<String> {
        match &self.recording {
            Some(span) => Some(traceparent::format(span.span_context())),
            None => self.forwarded.clone(),
        }
    }

    /// Sets an attribute. The value is computed only if the span is recorded.
    pub fn set<V: Into<Value>>(&mut self, name: &'static str, value: impl FnOnce() -> V) {
        // A span that the sampler left out exists only to forward that decision.
        if let Some(span) = &mut self.recording
            && span.is_recording()
        {
            span.set_attribute(KeyValue::new(name, value()));
        }
    }

    /// Marks the span as failed.
    pub fn fail(&mut self, reason: impl Into<Cow<'static, str>>) {
        if let Some(span) = &mut self.recording {
            span.set_status(Status::error(reason));
        }
    }
}
