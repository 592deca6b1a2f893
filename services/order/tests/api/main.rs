//! The order service as its clients meet it: the real application on a free port, a database each,
//! and no broker, which must not matter to the API. Only `following` has one: a topic each.

// The lint's exception for tests does not reach the functions that tests call.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod answer;
mod authentication;
mod bad_bodies;
mod batches;
mod cancelling;
mod following;
mod hostile_requests;
mod key_window;
mod keys;
mod listing;
mod lost_answers;
mod one_commit;
mod openapi;
mod outage;
mod outbox_columns;
mod paying_again;
mod problems;
mod put;
mod reading;
mod references;
mod replays;
mod service;
mod topic;
mod unknown_formats;

use std::time::Duration;

/// Long enough for a busy machine; reached only by a test that fails.
const PATIENCE: Duration = Duration::from_secs(30);

use testkit::polling::eventually_some as eventually;
