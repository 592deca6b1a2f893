//! Tests of the whole system: real processes, a real Postgres, a real Kafka and the mock provider.
//! Most tests end with a check of the provider's ledger.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking, even in functions that it calls"
)]

mod back_pressure;
mod broker_loss;
mod browser;
mod canary;
mod cancels;
mod chaos;
mod commands;
mod crash_windows;
mod direct_charges;
mod duplicates;
mod early_start;
mod embedded_broker;
mod fair_slots;
mod gauges;
mod harness;
mod kills;
#[cfg(feature = "long")]
mod long_broker_cluster;
#[cfg(feature = "long")]
mod long_broker_pauses;
#[cfg(feature = "long")]
mod long_growth;
#[cfg(feature = "long")]
mod long_upgrade;
mod mails;
mod odd_input;
mod operators;
mod outcomes;
mod parking;
mod paused_payment;
mod payer;
mod paying_again;
mod proof;
mod provider_faults;
mod provider_outcomes;
mod receipts;
mod reconciliation;
mod redelivery;
mod refunds;
mod replicas;
mod restores;
mod runbook;
mod shared_systems;
mod slow_provider;
mod store_outages;
mod timeline;
mod trace;
mod unknowns;
