#![doc = include_str!("../README.md")]

mod merge;
mod read;
mod story;
mod summary;
mod text;

pub use merge::merge;
pub use read::{Targets, read};
pub use steps::{Event, Part, Severity, Source, Step};
pub use story::{Missing, Span, SpanKind, Story, Trace};
pub use text::text;
