//! The order service over HTTP: the real application on a free port, with one database per test.
//! There is no broker, which the API does not need. Only `failing` and `following` use one, with one topic per test.

// Clippy's exception for tests does not cover the functions that tests call.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod admission;
mod authentication;
mod bad_bodies;
mod batches;
mod cancelling;
mod failing;
mod following;
mod harness;
mod hostile_requests;
mod impossible_states;
mod key_window;
mod keys;
mod listing;
mod lost_responses;
mod one_commit;
mod openapi;
mod outage;
mod outbox_columns;
mod paying_again;
mod plans;
mod problems;
mod put;
mod reading;
mod references;
mod replays;
mod schema;
mod timeline;
mod topic;
mod unknown_formats;

use std::time::Duration;

/// Long enough for a busy machine. Only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(120);

use testkit::polling::eventually_some as eventually;
