//! The progress of a run on standard error, and what every measurement needs.

use std::cell::{Cell, RefCell};

use testkit::progress::Progress;

use super::memory::MemoryLog;
use super::rig::Rig;
use super::scale::Scale;
use crate::measure::pgbench::IntakeSql;

/// The context of all measurements.
pub(super) struct Bench<'a> {
    pub(super) rig: &'a Rig,
    pub(super) scale: &'a Scale,
    pub(super) intake_sql: &'a IntakeSql,
    pub(super) steps: &'a Steps,
}

/// Counts the steps of a run and shows each of them.
pub(super) struct Steps {
    progress: Progress,
    done: Cell<usize>,
    total: usize,
    phase: RefCell<String>,
    pub(super) memory: MemoryLog,
}

impl Steps {
    pub(super) fn new(total: usize, quiet: bool) -> Self {
        Self {
            progress: Progress::new(quiet),
            done: Cell::new(0),
            total,
            phase: RefCell::default(),
            memory: MemoryLog::default(),
        }
    }

    /// Names what the next steps belong to.
    pub(super) fn phase(&self, name: &str) {
        name.clone_into(&mut self.phase.borrow_mut());
        self.memory.phase(name);
    }

    /// Shows a step while it runs, and how long it took.
    pub(super) async fn step<T>(
        &self,
        what: &str,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let number = self.done.get() + 1;
        self.done.set(number);
        let name = format!("{number:>3}/{} {}: {what}", self.total, self.phase.borrow());
        self.progress.step(&name, work).await
    }
}

impl Bench<'_> {
    /// Measures pairs, alternating which of the two comes first: a machine that becomes slower or faster during the
    /// run then favours neither. Returns measured figures with their limits.
    pub(super) async fn interleave(
        &self,
        pairs: usize,
        measured: (&str, impl AsyncFn() -> anyhow::Result<f64>),
        limit: (&str, impl AsyncFn() -> anyhow::Result<f64>),
    ) -> anyhow::Result<Vec<(f64, f64)>> {
        let mut results = Vec::with_capacity(pairs);
        for pair in 0..pairs {
            let run_limit = async || self.steps.step(limit.0, limit.1()).await;
            let run_measured = async || self.steps.step(measured.0, measured.1()).await;
            results.push(if pair % 2 == 0 {
                let limit = run_limit().await?;
                (run_measured().await?, limit)
            } else {
                (run_measured().await?, run_limit().await?)
            });
        }
        Ok(results)
    }

    /// Orders per second of pgbench with the intake SQL.
    pub(super) async fn pgbench(&self) -> anyhow::Result<f64> {
        let Scale {
            clients, pgbench_s, ..
        } = *self.scale;
        let pids = self.rig.pids();
        Ok(self.intake_sql.run(&pids, clients, pgbench_s).await?.tps)
    }
}
