#![doc = include_str!("../README.md")]

mod merge;
mod order_timeline;
mod read;
mod summary;
mod text;

pub use merge::merge;
pub use order_timeline::{Missing, OrderTimeline, Span, SpanKind, Trace};
pub use read::{Targets, read};
pub use steps::{Event, Part, Severity, Source, Step};
pub use text::text;
