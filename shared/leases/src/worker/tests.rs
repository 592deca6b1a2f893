use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

pub(crate) const LEASE: Duration = Duration::from_secs(60);
pub(crate) const IN_FLIGHT_MAX: usize = 8;

/// Rows are numbers, and the result of a call is its row.
#[derive(Default)]
pub(crate) struct FakeWork {
    due: Mutex<Vec<u32>>,
    leases: AtomicUsize,
    /// The result of every row whose lease expired.
    expired: Option<u32>,
    /// A row below it stays open. Its next try is the next row.
    open_below: u32,
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

    fn next_try(&self, result: &u32) -> Option<u32> {
        (*result < self.open_below).then_some(result + 1)
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

/// A worker whose row 0 stays open after the first try.
pub(crate) fn worker_that_tries_twice() -> FakeWorker {
    let work = FakeWork {
        open_below: 1,
        ..FakeWork::default()
    };
    worker_for(work, LEASE, IN_FLIGHT_MAX)
}

fn worker_for<W: Work>(
    work: W,
    lease: Duration,
    batch_max: usize,
) -> (Worker<W>, mpsc::Receiver<Done<W::Output>>) {
    let (sender, results) = mpsc::channel(IN_FLIGHT_MAX);
    let settings = Settings {
        lease,
        poll: Duration::from_secs(1),
        in_flight_max: IN_FLIGHT_MAX,
        batch_max,
        store_wait_max: STORE_WAIT_MAX,
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

/// Rows are numbers; an odd one belongs to `odd`.
pub(crate) struct SharedWork(Mutex<Vec<u32>>);

impl Work for SharedWork {
    type Row = u32;
    type Output = u32;

    fn principal<'a>(&self, row: &'a u32) -> &'a str {
        if row % 2 == 1 { "odd" } else { "even" }
    }

    async fn lease(&self, request: LeaseRequest) -> anyhow::Result<Vec<u32>> {
        let mut due = self.0.lock().unwrap();
        let mut leased = Vec::new();
        for share in request.shares {
            for _ in 0..share.limit {
                let mut all = due.iter();
                let first = all.position(|row| self.principal(row) == &*share.principal);
                leased.extend(first.map(|first| due.remove(first)));
            }
        }
        Ok(leased)
    }

    async fn call(&self, row: u32) -> u32 {
        row
    }

    fn expired(&self, _row: u32) -> Option<u32> {
        None
    }
}

type SharedWorker = (Worker<SharedWork>, Arc<Queues>, mpsc::Receiver<Done<u32>>);

/// A worker whose slots are shared between `odd` and `even`.
pub(crate) fn shared_worker(rows: Vec<u32>) -> SharedWorker {
    let (sender, results) = mpsc::channel(IN_FLIGHT_MAX);
    // A queue is looked into only when there is a reason.
    let queues = Arc::new(Queues::new(LEASE));
    let settings = Settings {
        lease: LEASE,
        poll: LEASE,
        in_flight_max: IN_FLIGHT_MAX,
        batch_max: IN_FLIGHT_MAX,
        store_wait_max: STORE_WAIT_MAX,
    };
    let work = SharedWork(Mutex::new(rows));
    let worker = Worker::shared(work, settings, queues.clone(), sender);
    (worker, queues, results)
}

#[tokio::test]
async fn slots_are_shared_between_principals() {
    let rows = (0..100).map(|n| n * 2 + 1).chain([2]).collect();
    let (worker, queues, mut results) = shared_worker(rows);
    assert_eq!(worker.step().await.unwrap(), 0, "no queue is known");
    queues.wake("odd");
    assert_eq!(worker.step().await.unwrap(), IN_FLIGHT_MAX / 2);
    assert_eq!(worker.step().await.unwrap(), 0, "it has its share");
    queues.wake("even");
    assert_eq!(worker.step().await.unwrap(), 1);
    // A freed slot goes to the backlog again.
    while let Ok(done) = results.try_recv() {
        drop(done);
    }
    tokio::task::yield_now().await;
    while *results.recv().await.unwrap() % 2 == 0 {}
    assert!(worker.step().await.unwrap() > 0);
}

#[tokio::test]
async fn lease_that_ended_during_suspension_makes_no_call() {
    let now = Arc::new(Mutex::new(Duration::ZERO));
    let clock = Clock::new({
        let now = now.clone();
        move || *now.lock().unwrap()
    });
    let (worker, mut results) = worker(&[1]);
    let worker = worker.with_clock(clock);
    assert_eq!(worker.step().await.unwrap(), 1);
    // The machine sleeps before the call starts: only this clock notices.
    *now.lock().unwrap() += LEASE;
    drop(worker);
    assert!(results.recv().await.is_none());
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

/// A store that fails every time; counts the tries.
#[derive(Clone, Default)]
struct FailingStore(Arc<AtomicUsize>);

impl Work for FailingStore {
    type Row = u32;
    type Output = u32;

    async fn lease(&self, _: LeaseRequest) -> anyhow::Result<Vec<u32>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        anyhow::bail!("the store fails")
    }

    async fn call(&self, row: u32) -> u32 {
        row
    }

    fn expired(&self, _row: u32) -> Option<u32> {
        None
    }
}

#[tokio::test(start_paused = true)]
async fn wakes_do_not_repeat_a_failed_lease_sooner() {
    const PAUSES: u32 = 20;
    let store = FailingStore::default();
    let (worker, _results) = worker_for(store.clone(), LEASE, IN_FLIGHT_MAX);
    let due = worker.due.clone();
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(worker.run(shutdown.clone()));
    let end = Instant::now() + PAUSES * FAILURE_PAUSE;
    while Instant::now() < end {
        due.notify_one();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    shutdown.cancel();
    running.await.unwrap().unwrap();
    let tries = store.0.load(Ordering::Relaxed);
    assert!((2..=PAUSES as usize + 1).contains(&tries), "{tries} tries");
}
