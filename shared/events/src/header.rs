//! Header names of a Kafka message: CloudEvents 1.0 in binary mode, plus correlation id and trace
//! context.

pub const ID: &str = "ce_id";
pub const TYPE: &str = "ce_type";
pub const SOURCE: &str = "ce_source";
pub const TIME: &str = "ce_time";
pub const SUBJECT: &str = "ce_subject";
pub const SPEC_VERSION: &str = "ce_specversion";
pub const CONTENT_TYPE: &str = "content-type";
pub const CORRELATION_ID: &str = "correlation-id";
pub const TRACEPARENT: &str = "traceparent";

/// The value of [`SPEC_VERSION`].
pub const SPEC_VERSION_VALUE: &str = "1.0";
/// The value of [`CONTENT_TYPE`]: every payload is JSON.
pub const CONTENT_TYPE_VALUE: &str = "application/json";
