use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

pub(crate) const LEASE: Duration = Duration::from_secs(60);
const IN_FLIGHT_MAX: usize = 8;

/// Rows are numbers, and the result of a call is its row.
#[derive(Default)]
pub(crate) struct FakeWork {
    due: Mutex<Vec<u32>>,
    leases: AtomicUsize,
    /// The result of every row whose lease expired.
    expired: Option<u32>,
}

impl Work for FakeWork {
    type Row = u32;
    type Output = u32;

    async fn lease(&self, request: LeaseRequest) -> anyhow::Result<Vec<u32>> {
        let mut due = self.due.lock().unwrap();
        let count = due.len().min(request.limit as usize);
        Ok(due.drain(..count).collect())
    }

    fn leased(&self) {
        self.leases.fetch_add(1, Ordering::Relaxed);
    }

    async fn call(&self, row: u32) -> u32 {
        row
    }

    fn expired(&self, _row: u32) -> Option<u32> {
        self.expired
    }
}

type FakeWorker = (Worker<FakeWork>, mpsc::Receiver<Done<u32>>);

/// A worker for which these rows are due, and its results.
pub(crate) fn worker(rows: &[u32]) -> FakeWorker {
    let work = FakeWork {
        due: Mutex::new(rows.to_vec()),
        ..FakeWork::default()
    };
    worker_for(work, LEASE, IN_FLIGHT_MAX)
}

fn worker_for(work: FakeWork, lease: Duration, batch_max: usize) -> FakeWorker {
    let (sender, results) = mpsc::channel(IN_FLIGHT_MAX);
    let settings = Settings {
        lease,
        poll: Duration::from_secs(1),
        in_flight_max: IN_FLIGHT_MAX,
        batch_max,
    };
    let worker = Worker::new(work, settings, Arc::new(Notify::new()), sender);
    (worker, results)
}

#[tokio::test]
async fn step_leases_no_more_than_free_slots() {
    let rows: Vec<u32> = (0..20).collect();
    let (worker, mut results) = worker(&rows);
    assert_eq!(worker.step().await.unwrap(), IN_FLIGHT_MAX);
    let first = results.recv().await.unwrap();
    let second = results.recv().await.unwrap();
    // A slot is free once the recorder has dropped its result, not earlier.
    drop((first, second));
    assert_eq!(worker.step().await.unwrap(), 2);
    assert_eq!(worker.work.leases.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn step_leases_no_more_than_the_batch_limit() {
    let work = FakeWork {
        due: Mutex::new((0..20).collect()),
        ..FakeWork::default()
    };
    let (worker, _results) = worker_for(work, LEASE, 3);
    assert_eq!(worker.step().await.unwrap(), 3);
    assert_eq!(worker.step().await.unwrap(), 3);
}

#[tokio::test]
async fn crash_point_is_not_reached_without_due_rows() {
    let (worker, _results) = worker(&[]);
    assert_eq!(worker.step().await.unwrap(), 0);
    assert_eq!(worker.work.leases.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn expired_lease_makes_no_call() {
    for expired in [None, Some(99)] {
        let work = FakeWork {
            due: Mutex::new(vec![1]),
            expired,
            ..FakeWork::default()
        };
        let (worker, mut results) = worker_for(work, Duration::ZERO, IN_FLIGHT_MAX);
        assert_eq!(worker.step().await.unwrap(), 1);
        drop(worker);
        let result = results.recv().await.map(|done| *done);
        assert_eq!(result, expired);
    }
}

#[tokio::test(start_paused = true)]
async fn run_stops_and_lets_calls_finish() {
    let (worker, mut results) = worker(&[1, 2]);
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(worker.run(shutdown.clone()));
    let first = results.recv().await.unwrap();
    shutdown.cancel();
    running.await.unwrap().unwrap();
    let second = results.recv().await.unwrap();
    assert_eq!(*first + *second, 3);
    assert!(results.recv().await.is_none());
}
