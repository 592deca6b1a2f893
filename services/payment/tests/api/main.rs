//! The payment service on a real Postgres, with a mock provider. Each test has its own database.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking, even in a helper function"
)]

mod api_client;
mod api_server;
mod application;
mod config;
mod direct;
mod fencing;
mod gauges;
mod hangs;
mod harness;
mod held;
mod limits;
mod locking;
mod lookups;
mod operating;
mod outage;
mod outcomes;
mod plans;
mod provider;
mod queues;
mod reconciling;
mod reconciling_pages;
mod recording;
mod redriving;
mod refunds;
mod rejections;
mod report_retention;
mod resolving;
mod response;
mod settling;
mod shutdown;
mod statuses;
mod stepper;
mod stored_leased;
mod timeline;
mod unknowns;
