//! The armed faults.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::domain::fault::{AppliedFault, Fault, Point};

/// Maximum number of faults in the list. New faults replace spent ones.
pub const FAULTS_MAX: usize = 1_000;

#[derive(Debug, Default)]
pub struct Faults {
    list: Mutex<FaultList>,
    /// While this is false, no fault can apply, and requests do not take the lock.
    any_armed: AtomicBool,
    cleared: Notify,
}

#[derive(Debug, Default)]
struct FaultList {
    last_id: u64,
    faults: Vec<ArmedFault>,
}

/// A fault and how many times it was applied.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArmedFault {
    pub id: u64,
    #[serde(flatten)]
    pub fault: Fault,
    pub fired: u32,
}

impl ArmedFault {
    fn is_spent(&self) -> bool {
        self.fault.is_spent(self.fired)
    }
}

impl Faults {
    /// Returns `None` when the list is full of faults that can still apply.
    pub fn arm(&self, fault: Fault) -> Option<ArmedFault> {
        let mut list = self.list();
        if list.faults.len() >= FAULTS_MAX {
            let oldest_spent = list.faults.iter().position(ArmedFault::is_spent)?;
            list.faults.remove(oldest_spent);
        }
        list.last_id += 1;
        let armed = ArmedFault {
            id: list.last_id,
            fault,
            fired: 0,
        };
        list.faults.push(armed.clone());
        self.refresh(&list);
        Some(armed)
    }

    /// All faults, spent ones included, in the order in which they were armed.
    pub fn all(&self) -> Vec<ArmedFault> {
        self.list().faults.clone()
    }

    /// Disarms all faults and ends every wait that is under way.
    pub fn clear(&self) {
        let mut list = self.list();
        list.faults.clear();
        self.refresh(&list);
        self.cleared.notify_waiters();
    }

    /// Waits for the delay, or until the faults are cleared.
    pub async fn wait(&self, delay: Duration) {
        tokio::select! {
            () = sleep(delay) => {}
            () = self.cleared.notified() => {}
        }
    }

    /// Returns whether the fault existed.
    pub fn remove(&self, id: u64) -> bool {
        let mut list = self.list();
        let before = list.faults.len();
        list.faults.retain(|armed| armed.id != id);
        self.refresh(&list);
        list.faults.len() < before
    }

    /// Applies the first matching fault that its probability selects, and counts it.
    pub fn apply(&self, point: Point, reference: &str) -> Option<AppliedFault> {
        if !self.any_armed.load(Ordering::Acquire) {
            return None;
        }
        let mut list = self.list();
        let armed = list.faults.iter_mut().find(|armed| {
            !armed.is_spent()
                && armed.fault.matches(point, reference)
                && armed.fault.applies(rand::random())
        })?;
        armed.fired += 1;
        let applied = armed.fault.apply();
        self.refresh(&list);
        Some(applied)
    }

    /// Whether [`Faults::apply`] could apply a fault here.
    pub fn may_apply(&self, point: Point, reference: &str) -> bool {
        self.any_armed.load(Ordering::Acquire)
            && self
                .list()
                .faults
                .iter()
                .any(|armed| !armed.is_spent() && armed.fault.matches(point, reference))
    }

    fn refresh(&self, list: &FaultList) {
        let any_armed = list.faults.iter().any(|armed| !armed.is_spent());
        self.any_armed.store(any_armed, Ordering::Release);
    }

    fn list(&self) -> MutexGuard<'_, FaultList> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drop_before(times: Option<u32>) -> Fault {
        let json = serde_json::json!({"point": "before_charge", "action": "drop", "times": times});
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn spent_fault_stays_listed_and_the_next_one_applies() {
        let faults = Faults::default();
        faults.arm(drop_before(Some(1))).unwrap();
        faults.arm(drop_before(Some(2))).unwrap();
        let applied = [(); 4].map(|()| faults.apply(Point::BeforeCharge, "o").is_some());
        assert_eq!(applied, [true, true, true, false]);
        let fired: Vec<u32> = faults.all().iter().map(|armed| armed.fired).collect();
        assert_eq!(fired, [1, 2]);
        assert!(!faults.may_apply(Point::BeforeCharge, "o"));
    }

    #[test]
    fn full_list_replaces_spent_faults_then_rejects_new_ones() {
        let faults = Faults::default();
        faults.arm(drop_before(Some(1))).unwrap();
        faults.apply(Point::BeforeCharge, "o").unwrap();
        for _ in 0..FAULTS_MAX {
            faults.arm(drop_before(None)).unwrap();
        }
        assert!(faults.arm(drop_before(None)).is_none());
        assert_eq!(faults.all().first().unwrap().id, 2);
    }
}
