//! What a mail costs: connections, commands and round trips.

use crate::harness::{Harness, LONG};
use crate::mail_server::{MailServer, Rules};
use crate::stepper::Stepper;

const MAILS: usize = 60;

/// Sends this many mails through one sender, each in one try.
async fn send_all(server: &MailServer, connections_max: usize) {
    let harness = Harness::create().await;
    for _ in 0..MAILS {
        harness.log_new().await;
    }
    let mut stepper = Stepper::with_connections(&harness, server.port, LONG, connections_max);
    let mut sent = 0;
    while sent < MAILS {
        let tried = stepper.send().await;
        assert!(!tried.is_empty(), "only {sent} mails were due");
        sent += harness.record(&tried).await;
    }
    let once = "select count(*) from receipts where status = 'sent' and tries = 1";
    assert_eq!(harness.count(once).await, MAILS as i64);
    assert_eq!(server.count("MAIL") - server.count("RCPT"), 0);
}

#[tokio::test]
async fn mails_share_connections_without_liveness_tests() {
    let server = MailServer::start(Rules::default()).await;
    send_all(&server, 2).await;
    assert!(server.count("CONNECT") <= 2);
    assert_eq!(server.count("NOOP"), 0);
    assert_eq!(server.count("TOO EARLY"), 0, "PIPELINING is not offered");
}

#[tokio::test]
async fn envelope_is_one_round_trip_if_the_server_allows() {
    let server = MailServer::start(Rules {
        pipelining: true,
        ..Rules::default()
    })
    .await;
    send_all(&server, 2).await;
}

#[tokio::test]
async fn server_that_ends_connections_costs_no_try() {
    let server = MailServer::start(Rules {
        mails_per_connection_max: Some(7),
        ..Rules::default()
    })
    .await;
    let harness = Harness::create().await;
    let mut stepper = Stepper::with_connections(&harness, server.port, LONG, 1);
    for _ in 0..MAILS {
        let order = harness.log_new().await;
        let tried = stepper.send().await;
        harness.record(&tried).await;
        assert_eq!(harness.row(order).await.state(), ("sent", 1, 1));
    }
    assert_eq!(server.count("CONNECT"), MAILS.div_ceil(7));
}

/// More mails are leased than there are connections; each waits for its turn.
#[tokio::test]
async fn leased_mails_wait_for_a_free_connection() {
    let server = MailServer::start(Rules::default()).await;
    send_all(&server, 1).await;
    assert_eq!(server.count("CONNECT"), 1);
}
