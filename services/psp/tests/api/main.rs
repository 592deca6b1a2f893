//! The mock provider over real HTTP, with a database per test.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking, even in a helper function"
)]

mod api_response;
mod arming_faults;
mod bad_input;
mod cancel_races;
mod cancellations;
mod charges;
mod fault_points;
mod hang_ups;
mod later_outcomes;
mod lookup_lag;
mod lookups;
mod operators;
mod refund_faults;
mod refunds;
mod replays;
mod server;
mod statuses;
mod stored_5xx;
mod timeline;
