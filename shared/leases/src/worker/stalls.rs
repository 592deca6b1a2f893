//! Workers that hang: each wait ends by its limit, or the watch reports it.

use std::sync::atomic::{AtomicUsize, Ordering};

use service_kit::Watch;

use super::*;
use crate::recorder::{Record, Recorder, WhenUnreachable};

const LEASE: Duration = Duration::from_secs(60);

/// One row is due at all times. The first lease hangs as long as the store is silent.
#[derive(Clone, Default)]
struct Hanging {
    silent_leases: Arc<AtomicUsize>,
    leases: Arc<AtomicUsize>,
    calls_hang: bool,
}

impl Work for Hanging {
    type Row = u32;
    type Output = u32;

    async fn lease(&self, _: LeaseRequest) -> anyhow::Result<Vec<u32>> {
        let fewer = |left: usize| left.checked_sub(1);
        let silent = &self.silent_leases;
        let silent = silent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
        if silent.is_ok() {
            std::future::pending::<()>().await;
        }
        self.leases.fetch_add(1, Ordering::Relaxed);
        Ok(vec![1])
    }

    async fn call(&self, row: u32) -> u32 {
        if self.calls_hang {
            std::future::pending::<()>().await;
        }
        row
    }

    fn expired(&self, _: u32) -> Option<u32> {
        None
    }
}

fn worker(work: Hanging) -> (Worker<Hanging>, mpsc::Receiver<Done<u32>>) {
    let (sender, results) = mpsc::channel(1);
    let settings = Settings {
        lease: LEASE,
        poll: Duration::from_secs(1),
        in_flight_max: 1,
        batch_max: 1,
        store_wait_max: STORE_WAIT_MAX,
    };
    let worker = Worker::new(work, settings, Arc::new(Notify::new()), sender);
    (worker, results)
}

#[tokio::test(start_paused = true)]
async fn silent_store_delays_a_lease_by_its_limit_only() {
    let work = Hanging {
        silent_leases: Arc::new(AtomicUsize::new(2)),
        ..Hanging::default()
    };
    let watch = Watch::default();
    let (worker, mut results) = worker(work);
    let shutdown = CancellationToken::new();
    let running = watch.worker("charger").of(worker.run(shutdown.clone()));
    let running = tokio::spawn(running);
    // Two silent leases, each with its pause, on the paused clock.
    let limit = 3 * STORE_WAIT_MAX;
    let result = tokio::time::timeout(limit, results.recv()).await;
    assert_eq!(result.unwrap().map(|done| *done), Some(1));
    assert!(watch.stalled().is_empty());
    shutdown.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn worker_without_a_free_slot_is_stalled() {
    let work = Hanging {
        calls_hang: true,
        ..Hanging::default()
    };
    let watch = Watch::default();
    let leases = work.leases.clone();
    let (worker, _results) = worker(work);
    let shutdown = CancellationToken::new();
    let running = watch.worker("charger").of(worker.run(shutdown.clone()));
    let running = tokio::spawn(running);
    tokio::time::sleep(LEASE).await;
    assert_eq!(leases.load(Ordering::Relaxed), 1);
    assert!(watch.stalled().is_empty(), "a call may take this long");
    tokio::time::sleep(STEP_SLACK + Duration::from_secs(1)).await;
    let stalled: Vec<_> = watch.stalled().iter().map(|it| it.worker).collect();
    assert_eq!(stalled, ["charger"]);
    shutdown.cancel();
    running.await.unwrap().unwrap();
}

/// The first tries to record hang.
struct SilentStore {
    tries: Arc<AtomicUsize>,
}

impl Record for SilentStore {
    type Output = u32;

    async fn record(&self, batch: &[Done<u32>]) -> anyhow::Result<usize> {
        if self.tries.fetch_add(1, Ordering::Relaxed) < 2 {
            std::future::pending::<()>().await;
        }
        Ok(batch.len())
    }

    fn describe(&self, result: &u32) -> String {
        result.to_string()
    }
}

#[tokio::test(start_paused = true)]
async fn silent_store_delays_a_record_by_its_limit_only() {
    let (worker, results) = worker(Hanging::default());
    assert_eq!(worker.step().await.unwrap(), 1);
    drop(worker);
    let tries = Arc::new(AtomicUsize::new(0));
    let store = SilentStore {
        tries: tries.clone(),
    };
    let watch = Watch::default();
    let policy = WhenUnreachable::KeepWhileLeased;
    let recorder = Recorder::new(store, policy, Duration::from_secs(5), results);
    let recording = watch.worker("recorder").of(recorder.run());
    // Two silent tries, each with its pause, on the paused clock.
    let recorded = tokio::time::timeout(Duration::from_secs(20), recording).await;
    recorded.expect("the recorder hangs").unwrap();
    assert_eq!(tries.load(Ordering::Relaxed), 3);
    assert!(watch.stalled().is_empty());
}
