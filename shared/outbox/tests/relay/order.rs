//! Events of one order arrive in order, even after a failure.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

use events::Envelope;
use outbox::{StepOutcome, enqueue, shard_of};
use uuid::Uuid;

use crate::harness::{Harness, event, numbers};

#[tokio::test]
async fn events_of_one_order_arrive_in_order_over_many_batches() {
    let harness = Harness::create().await;
    let orders: Vec<Uuid> = (0..7).map(|_| Uuid::new_v4()).collect();
    for number in 1..=20 {
        let events: Vec<Envelope> = orders.iter().map(|id| event(*id, number)).collect();
        harness.write(&events).await;
    }
    let mut settings = harness.settings();
    settings.batch_rows_max = 9;
    let mut relay = harness.relay(settings);
    let mut steps = 0;
    while relay.step().await.unwrap() != StepOutcome::Idle {
        steps += 1;
    }
    assert!(steps > 1, "one batch took everything");
    let messages = harness.topic.read().await;
    assert_eq!(messages.len(), 7 * 20);
    for order in orders {
        let expected: Vec<i32> = (1..=20).collect();
        assert_eq!(numbers(&messages, order), expected);
    }
}

/// Writes 40 events for each of 7 orders. With two rows of each shard a batch has at most 14.
async fn write_backlog(harness: &Harness) -> Vec<Uuid> {
    let orders: Vec<Uuid> = (0..7).map(|_| Uuid::new_v4()).collect();
    for number in 1..=40 {
        let events: Vec<Envelope> = orders.iter().map(|id| event(*id, number)).collect();
        harness.write(&events).await;
    }
    orders
}

#[tokio::test]
async fn running_relay_publishes_a_backlog_once_and_in_order() {
    let harness = Harness::create().await;
    let orders = write_backlog(&harness).await;
    let mut settings = harness.settings();
    settings.batch_rows_max = 20;
    let (shutdown, task) = harness.run(settings);
    harness.all_published().await;
    shutdown.cancel();
    task.await.unwrap().unwrap();
    let messages = harness.topic.read().await;
    assert_eq!(messages.len(), 7 * 40);
    for order in orders {
        let expected: Vec<i32> = (1..=40).collect();
        assert_eq!(numbers(&messages, order), expected);
    }
}

/// The batch that was not recorded yet and the one that was on its way are sent again, in order.
#[tokio::test]
async fn backlog_of_a_relay_that_died_is_published_in_order() {
    static ACKNOWLEDGED: AtomicUsize = AtomicUsize::new(0);
    let harness = Harness::create().await;
    let orders = write_backlog(&harness).await;
    let mut settings = harness.settings();
    settings.batch_rows_max = 20;
    settings.reached = |point| {
        if point == "relay.acknowledged" {
            assert_ne!(ACKNOWLEDGED.fetch_add(1, Ordering::Relaxed), 3);
        }
    };
    let (_shutdown, task) = harness.run(settings.clone());
    assert!(task.await.unwrap_err().is_panic());
    let unpublished = harness.unpublished().await;
    assert!((1..7 * 40).contains(&unpublished), "{unpublished}");
    settings.reached = |_| {};
    let (_shutdown, _task) = harness.run(settings);
    harness.all_published().await;
    let messages = harness.topic.read().await;
    let repeated = messages.len() - 7 * 40;
    assert!((1..=28).contains(&repeated), "{repeated} messages repeated");
    for order in orders {
        let mut expected = 1;
        for number in numbers(&messages, order) {
            assert!(number <= expected, "{number} instead of {expected}");
            expected = expected.max(number + 1);
        }
        assert_eq!(expected, 41);
    }
}

/// Where the relay waits with its first batch until the test has committed other events.
struct FirstBatch {
    read: Mutex<mpsc::Sender<()>>,
    committed: Mutex<mpsc::Receiver<()>>,
}

/// An event with a low id commits after a batch was read, then the next event of its order commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_commit_is_not_overtaken_in_a_backlog() {
    static FIRST: OnceLock<FirstBatch> = OnceLock::new();
    static CLAIMS: AtomicUsize = AtomicUsize::new(0);
    let harness = Harness::create().await;
    let late = Uuid::new_v4();
    let mut tx = harness.pool.begin().await.unwrap();
    enqueue(&mut tx, &[event(late, 1)]).await.unwrap();
    // The first batch takes two rows of each shard, so the second one would take the next event of the order.
    let is_beside = |order: &Uuid| shard_of(*order) == shard_of(late);
    let orders = || std::iter::repeat_with(Uuid::new_v4);
    let beside = orders().filter(is_beside).take(3);
    let elsewhere = orders().filter(|order| !is_beside(order)).take(200);
    let others: Vec<Envelope> = beside.chain(elsewhere).map(|it| event(it, 1)).collect();
    harness.write(&others).await;

    let (read, batch_read) = mpsc::channel();
    let (commit, committed) = mpsc::channel();
    let first = FirstBatch {
        read: Mutex::new(read),
        committed: Mutex::new(committed),
    };
    assert!(FIRST.set(first).is_ok());
    let mut settings = harness.settings();
    settings.batch_rows_max = 32;
    settings.rebalance_interval = Duration::from_secs(10);
    settings.reached = |point| {
        if point == "relay.claimed" && CLAIMS.fetch_add(1, Ordering::Relaxed) == 0 {
            let first = FIRST.get().unwrap();
            first.read.lock().unwrap().send(()).unwrap();
            let committed = || first.committed.lock().unwrap().recv();
            tokio::task::block_in_place(committed).unwrap();
        }
    };
    let (_shutdown, _task) = harness.run(settings);
    let batch_read = tokio::task::spawn_blocking(move || batch_read.recv());
    batch_read.await.unwrap().unwrap();
    tx.commit().await.unwrap();
    harness.write(&[event(late, 2)]).await;
    commit.send(()).unwrap();
    harness.all_published().await;
    assert_eq!(numbers(&harness.topic.read().await, late), [1, 2]);
}

/// Many for each pause after a failure.
const WAKES: usize = 300;
/// Shorter than the pause of the relay.
const FAILURE_PAUSE_MS: u128 = 400;

#[tokio::test]
async fn wakes_do_not_turn_a_failure_into_a_busy_loop() {
    static CLAIMS: AtomicUsize = AtomicUsize::new(0);
    let harness = Harness::create().await;
    harness.write(&[event(Uuid::new_v4(), 1)]).await;
    let mut settings = harness.settings();
    // No broker listens there.
    settings.brokers = "127.0.0.1:1".to_owned();
    settings.delivery_max = Duration::from_millis(1);
    settings.reached = |point| {
        if point == "relay.claimed" {
            CLAIMS.fetch_add(1, Ordering::Relaxed);
        }
    };
    let started = Instant::now();
    let (_shutdown, task) = harness.run(settings);
    let mut wakes = 0;
    while wakes < WAKES || CLAIMS.load(Ordering::Relaxed) < 2 {
        harness.wake.wake();
        wakes += 1;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    task.abort();
    let claims = CLAIMS.load(Ordering::Relaxed) as u128;
    // At most one try in each pause, however long this machine took for the wakes.
    let pauses = started.elapsed().as_millis() / FAILURE_PAUSE_MS;
    assert!(claims <= pauses + 1, "{claims} tries in {pauses} pauses");
}
