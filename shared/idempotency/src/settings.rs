//! Settings of services that accept idempotency keys.

use clap::value_parser;

/// Longest key window: a year. The table keeps each key for the whole window.
const KEY_WINDOW_SECONDS_MAX: u64 = 366 * 24 * 60 * 60;

/// Flatten them into the settings of a service.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "idempotency")]
pub struct Settings {
    /// How long an idempotency key is honoured.
    #[arg(long, env = "KEY_WINDOW_SECONDS", default_value_t = 86_400)]
    #[arg(value_parser = value_parser!(u64).range(1..=KEY_WINDOW_SECONDS_MAX))]
    pub key_window_seconds: u64,
}
