//! The mock provider over real HTTP, with a real database of its own per test.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking, also outside of its own function"
)]

mod answer;
mod bad_input;
mod cancel_races;
mod cancellations;
mod charges;
mod fault_board;
mod fault_points;
mod hang_up;
mod lookups;
mod refund_faults;
mod refunds;
mod replays;
mod server;
mod stored_5xx;
