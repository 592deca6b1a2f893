//! The memory of every process over time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, MissedTickBehavior};

use super::rig::Rig;
use crate::measure::usage::Meters;

const SAMPLE_INTERVAL: Duration = Duration::from_secs(2);

/// One column per process. A process that did not run has 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Memory {
    pub(crate) at_s: Vec<f64>,
    pub(crate) mib: BTreeMap<String, Vec<f64>>,
    /// When each part of the run began.
    pub(crate) phases: Vec<Phase>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Phase {
    pub(crate) name: String,
    pub(crate) from_s: f64,
}

/// Collects the samples of a run.
pub(super) struct MemoryLog {
    started: Instant,
    memory: RefCell<Memory>,
}

impl Default for MemoryLog {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            memory: RefCell::default(),
        }
    }
}

impl MemoryLog {
    /// Samples until the future is dropped.
    pub(super) async fn sample(&self, rig: &Rig) {
        let mut meters = Meters::default();
        let mut ticks = tokio::time::interval(SAMPLE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let now_s = self.now_s();
            self.memory
                .borrow_mut()
                .add(now_s, meters.sample(&rig.pids()));
        }
    }

    pub(super) fn phase(&self, name: &str) {
        let phase = Phase {
            name: name.to_owned(),
            from_s: self.now_s(),
        };
        self.memory.borrow_mut().phases.push(phase);
    }

    pub(super) fn take(&self) -> Memory {
        self.memory.take()
    }

    fn now_s(&self) -> f64 {
        tenth(self.started.elapsed().as_secs_f64())
    }
}

impl Memory {
    fn add(&mut self, at_s: f64, mib: BTreeMap<String, f64>) {
        let before = self.at_s.len();
        self.at_s.push(at_s);
        for (name, mib) in mib {
            let column = self.mib.entry(name).or_default();
            column.resize(before, 0.0);
            column.push(tenth(mib));
        }
        for column in self.mib.values_mut() {
            column.resize(before + 1, 0.0);
        }
    }
}

fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_that_is_down_has_a_zero() {
        let sample = |names: &[(&str, f64)]| {
            let pairs = names.iter().map(|(name, mib)| ((*name).to_owned(), *mib));
            pairs.collect::<BTreeMap<_, _>>()
        };
        let mut memory = Memory::default();
        memory.add(0.0, sample(&[("order", 10.04)]));
        memory.add(2.0, sample(&[("order", 11.0), ("payment", 5.0)]));
        memory.add(4.0, sample(&[("order", 12.0)]));
        assert_eq!(memory.at_s, [0.0, 2.0, 4.0]);
        assert_eq!(memory.mib["order"], [10.0, 11.0, 12.0]);
        assert_eq!(memory.mib["payment"], [0.0, 5.0, 0.0]);
    }
}
