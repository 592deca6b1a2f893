//! Spans whose parent arrives as text: in a header, an outbox row or a message.
//!
//! A hop in this system rarely starts where its parent's code still runs. So spans take their
//! parent as a `traceparent` and give one to store, instead of following the call stack.

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
    // A second call would mean two `init`s, which the log set-up has refused already.
    let _ = TRACER.set(provider.tracer(service));
}

/// Ends when dropped. Without a collector it costs nothing and passes its parent's context on.
pub struct Span {
    recording: Option<SdkSpan>,
    passed_on: Option<String>,
}

impl Span {
    pub fn start(name: impl Into<Cow<'static, str>>, kind: Kind, parent: Option<&str>) -> Self {
        Self::start_at(name, kind, parent, None)
    }

    /// With a start in the past, for work whose wait belongs to the span.
    pub fn start_at(
        name: impl Into<Cow<'static, str>>,
        kind: Kind,
        parent: Option<&str>,
        start: Option<SystemTime>,
    ) -> Self {
        let Some(tracer) = TRACER.get() else {
            return Self {
                recording: None,
                // Only what is well-formed: it is stored and sent on.
                passed_on: parent
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
            passed_on: None,
        }
    }

    /// What the next hop names as its parent.
    pub fn traceparent(&self) -> Option<String> {
        match &self.recording {
            Some(span) => Some(traceparent::format(span.span_context())),
            None => self.passed_on.clone(),
        }
    }

    /// The value is only computed when somebody collects it.
    pub fn set<V: Into<Value>>(&mut self, name: &'static str, value: impl FnOnce() -> V) {
        if let Some(span) = &mut self.recording {
            span.set_attribute(KeyValue::new(name, value()));
        }
    }

    pub fn fail(&mut self, reason: impl Into<Cow<'static, str>>) {
        if let Some(span) = &mut self.recording {
            span.set_status(Status::error(reason));
        }
    }
}
