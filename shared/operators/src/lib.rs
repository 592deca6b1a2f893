#![doc = include_str!("../README.md")]

pub mod audit;
mod authentication;
#[cfg(feature = "crash-points")]
mod crash_points;
mod operator;
mod routes;
mod settings;
mod timeline;
mod tokens;

pub use operator::{Operator, REASON, REASON_CHARS_MAX};
pub use routes::finish;
pub use settings::Settings;
pub use timeline::{PartQuery, ReadPart, read_part, timeline};
pub use tokens::{InvalidTokens, OPERATORS_MAX, TokenList, Tokens};
