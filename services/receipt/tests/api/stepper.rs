//! A sender that a test steps.

use std::sync::Arc;
use std::time::Duration;

use leases::{Clock, Done, Worker};
use receipt::config::{Smtp, TlsMode};
use receipt::domain::AgeLimit;
use receipt::sender::{Sender, Tried};
use receipt::smtp;
use tokio::sync::{Notify, mpsc};

use crate::harness::{EVENTUALLY, Harness};

const WEEK: AgeLimit = AgeLimit {
    age_max: Duration::from_secs(604_800),
    hold_before: None,
};
pub(crate) const TIMEOUT_MS: u64 = 1_500;
const IN_FLIGHT_MAX: usize = 16;

pub(crate) struct Stepper {
    sender: Worker<Sender>,
    outcomes: mpsc::Receiver<Done<Tried>>,
}

impl Stepper {
    pub(crate) fn new(harness: &Harness, smtp_port: u16, lease: Duration) -> Self {
        Self::with_tls(harness, smtp_port, lease, TlsMode::None)
    }

    pub(crate) fn with_tls(
        harness: &Harness,
        smtp_port: u16,
        lease: Duration,
        tls: TlsMode,
    ) -> Self {
        Self::with(harness, smtp_port, lease, tls, IN_FLIGHT_MAX)
    }

    /// A sender with fewer connections than mails in flight.
    pub(crate) fn with_connections(
        harness: &Harness,
        smtp_port: u16,
        lease: Duration,
        connections_max: usize,
    ) -> Self {
        Self::with(harness, smtp_port, lease, TlsMode::None, connections_max)
    }

    /// A sender whose floor, leases and limits follow this clock.
    pub(crate) fn with_clock(harness: &Harness, lease: Duration, clock: Clock) -> Self {
        let (port, mode) = (harness.smtp_port, TlsMode::None);
        Self::with_all(harness, port, lease, mode, IN_FLIGHT_MAX, clock)
    }

    fn with(
        harness: &Harness,
        smtp_port: u16,
        lease: Duration,
        tls: TlsMode,
        connections_max: usize,
    ) -> Self {
        let clock = Clock::default();
        Self::with_all(harness, smtp_port, lease, tls, connections_max, clock)
    }

    fn with_all(
        harness: &Harness,
        smtp_port: u16,
        lease: Duration,
        tls: TlsMode,
        connections_max: usize,
        clock: Clock,
    ) -> Self {
        let (outcomes, receiver) = mpsc::channel(IN_FLIGHT_MAX);
        let settings = Smtp {
            smtp_host: "127.0.0.1".to_owned(),
            smtp_port,
            smtp_tls: tls,
            smtp_user: None,
            smtp_password: None,
            smtp_connections_max: connections_max,
            smtp_timeout_ms: TIMEOUT_MS,
            smtp_data_timeout_ms: TIMEOUT_MS,
        };
        let from = "ChargeOnce <receipts@shop.example>".parse().unwrap();
        let client = smtp::Client::new(&settings, &from).unwrap();
        let sender = Sender::new(harness.pool.clone(), client, from, WEEK);
        let sender = sender.with_clock(clock.clone());
        let settings = leases::Settings {
            lease,
            // Only `run` uses it.
            poll: Duration::ZERO,
            in_flight_max: IN_FLIGHT_MAX,
            batch_max: IN_FLIGHT_MAX,
            store_wait_max: leases::STORE_WAIT_MAX,
        };
        let due = Arc::new(Notify::new());
        Self {
            sender: Worker::new(sender, settings, due, outcomes).with_clock(clock),
            outcomes: receiver,
        }
    }

    pub(crate) async fn lease(&self) -> usize {
        self.sender.step().await.unwrap()
    }

    /// Runs one step, and returns the outcomes of everything it leased.
    pub(crate) async fn send(&mut self) -> Vec<Done<Tried>> {
        let leased = self.lease().await;
        self.outcomes(leased).await
    }

    pub(crate) async fn outcomes(&mut self, count: usize) -> Vec<Done<Tried>> {
        let mut tried = Vec::with_capacity(count);
        while tried.len() < count {
            let next = tokio::time::timeout(EVENTUALLY, self.outcomes.recv()).await;
            tried.push(next.expect("an outcome is missing").unwrap());
        }
        tried
    }
}
