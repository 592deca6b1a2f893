//! The board of faults that are switched on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::domain::fault::{Fault, Point, Strike};

/// Most faults on the board. Spent ones make room for new ones.
pub const FAULTS_MAX: usize = 1_000;

#[derive(Debug, Default)]
pub struct Faults {
    board: Mutex<Board>,
    /// Spares the lock on every request while nothing can strike.
    armed: AtomicBool,
}

#[derive(Debug, Default)]
struct Board {
    last_id: u64,
    faults: Vec<Armed>,
}

/// A fault on the board, and how often it has struck.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Armed {
    pub id: u64,
    #[serde(flatten)]
    pub fault: Fault,
    pub fired: u32,
}

impl Armed {
    fn is_spent(&self) -> bool {
        self.fault.is_spent(self.fired)
    }
}

impl Faults {
    /// `None` when the board is full of faults that can still strike.
    pub fn add(&self, fault: Fault) -> Option<Armed> {
        let mut board = self.board();
        if board.faults.len() >= FAULTS_MAX {
            let oldest_spent = board.faults.iter().position(Armed::is_spent)?;
            board.faults.remove(oldest_spent);
        }
        board.last_id += 1;
        let armed = Armed {
            id: board.last_id,
            fault,
            fired: 0,
        };
        board.faults.push(armed.clone());
        self.refresh(&board);
        Some(armed)
    }

    /// In the order in which they were added.
    pub fn list(&self) -> Vec<Armed> {
        self.board().faults.clone()
    }

    pub fn clear(&self) {
        let mut board = self.board();
        board.faults.clear();
        self.refresh(&board);
    }

    /// Whether there was such a fault.
    pub fn remove(&self, id: u64) -> bool {
        let mut board = self.board();
        let before = board.faults.len();
        board.faults.retain(|armed| armed.id != id);
        self.refresh(&board);
        board.faults.len() < before
    }

    /// The first fault that aims here and whose dice fall so strikes, and is counted.
    pub fn draw(&self, point: Point, reference: &str) -> Option<Strike> {
        if !self.armed.load(Ordering::Acquire) {
            return None;
        }
        let mut board = self.board();
        let hit = board.faults.iter_mut().find(|armed| {
            !armed.is_spent()
                && armed.fault.aims_at(point, reference)
                && armed.fault.strikes(rand::random())
        })?;
        hit.fired += 1;
        let strike = hit.fault.strike();
        self.refresh(&board);
        Some(strike)
    }

    /// Whether [`Faults::draw`] could strike there.
    pub fn threaten(&self, point: Point, reference: &str) -> bool {
        self.armed.load(Ordering::Acquire)
            && self
                .board()
                .faults
                .iter()
                .any(|armed| !armed.is_spent() && armed.fault.aims_at(point, reference))
    }

    fn refresh(&self, board: &Board) {
        let armed = board.faults.iter().any(|armed| !armed.is_spent());
        self.armed.store(armed, Ordering::Release);
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn a_spent_fault_stays_listed_and_the_next_one_takes_over() {
        let faults = Faults::default();
        faults.add(drop_before(Some(1))).unwrap();
        faults.add(drop_before(Some(2))).unwrap();
        let draws = [(); 4].map(|()| faults.draw(Point::BeforeCharge, "o").is_some());
        assert_eq!(draws, [true, true, true, false]);
        let fired: Vec<u32> = faults.list().iter().map(|armed| armed.fired).collect();
        assert_eq!(fired, [1, 2]);
        assert!(!faults.threaten(Point::BeforeCharge, "o"));
    }

    #[test]
    fn a_full_board_gives_up_spent_faults_first_and_then_refuses() {
        let faults = Faults::default();
        faults.add(drop_before(Some(1))).unwrap();
        faults.draw(Point::BeforeCharge, "o").unwrap();
        for _ in 0..FAULTS_MAX {
            faults.add(drop_before(None)).unwrap();
        }
        assert!(faults.add(drop_before(None)).is_none());
        assert_eq!(faults.list().first().unwrap().id, 2);
    }
}
