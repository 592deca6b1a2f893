//! Shares a limited number of places between principals, so that one of them cannot take them all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The name under which work without a principal is counted.
const NO_PRINCIPAL: &str = "";

/// A number of places: slots for calls, or entries of a queue.
///
/// A principal gets another place only while it holds fewer than are free. One principal alone gets
/// half of the places, the next one half of the rest, and so on. So a principal that holds nothing
/// finds a free place, however long the others keep theirs, until all places are taken by many.
#[derive(Clone, Debug)]
pub struct FairShare(Arc<Shared>);

/// One place. Dropping it frees the place.
#[derive(Debug)]
pub struct Place {
    shared: Arc<Shared>,
    principal: Arc<str>,
}

#[derive(Debug)]
struct Shared {
    places: usize,
    taken: Mutex<Taken>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Places per principal. Principals without a place have no entry, so the map stays small.
    by_principal: HashMap<Arc<str>, usize>,
}

impl FairShare {
    pub fn new(places: usize) -> Self {
        Self(Arc::new(Shared {
            places,
            taken: Mutex::default(),
            freed: Notify::new(),
        }))
    }

    /// Takes a place, or returns `None` if the principal has its share.
    pub fn try_take(&self, principal: &str) -> Option<Place> {
        let mut taken = self.0.taken();
        let free = self.0.places - taken.all;
        let held = taken.by_principal.get_key_value(principal);
        let (principal, held) = match held {
            Some((principal, held)) => (principal.clone(), *held),
            None => (principal.into(), 0),
        };
        if held >= free {
            return None;
        }
        taken.all += 1;
        taken.by_principal.insert(principal.clone(), held + 1);
        Some(Place {
            shared: self.0.clone(),
            principal,
        })
    }

    /// Takes a place for work that belongs to no principal, as long as one is free.
    pub fn try_take_any(&self) -> Option<Place> {
        let mut taken = self.0.taken();
        if taken.all == self.0.places {
            return None;
        }
        let principal: Arc<str> = NO_PRINCIPAL.into();
        taken.all += 1;
        *taken.by_principal.entry(principal.clone()).or_default() += 1;
        Some(Place {
            shared: self.0.clone(),
            principal,
        })
    }

    /// Number of free places.
    pub fn free(&self) -> usize {
        self.0.places - self.0.taken().all
    }

    /// Number of places that the principal holds.
    pub fn held(&self, principal: &str) -> usize {
        let taken = self.0.taken();
        taken.by_principal.get(principal).copied().unwrap_or(0)
    }

    /// Waits until a place is freed. A place that was freed before this call counts too, if no
    /// earlier wait saw it.
    pub async fn freed(&self) {
        self.0.freed.notified().await;
    }
}

impl Shared {
    /// A panic cannot leave the counts half changed, so a poisoned lock is usable.
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.shared.taken();
        taken.all -= 1;
        if let Some(held) = taken.by_principal.get_mut(&self.principal) {
            *held -= 1;
            if *held == 0 {
                taken.by_principal.remove(&self.principal);
            }
        }
        drop(taken);
        self.shared.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes as many places as the principal gets.
    fn take_all(share: &FairShare, principal: &str) -> Vec<Place> {
        std::iter::from_fn(|| share.try_take(principal)).collect()
    }

    #[test]
    fn each_principal_gets_half_of_what_is_left() {
        let share = FairShare::new(16);
        let held: Vec<_> = ["a", "b", "c", "d", "e"]
            .map(|principal| take_all(&share, principal))
            .into_iter()
            .collect();
        let counts: Vec<usize> = held.iter().map(Vec::len).collect();
        assert_eq!(counts, [8, 4, 2, 1, 1]);
        assert_eq!(share.free(), 0);
        assert!(share.try_take("f").is_none());
    }

    #[test]
    fn work_without_a_principal_gets_every_place() {
        let share = FairShare::new(3);
        let places: Vec<Place> = std::iter::from_fn(|| share.try_take_any()).collect();
        assert_eq!((places.len(), share.free()), (3, 0));
        drop(places);
        assert_eq!((share.free(), share.held(NO_PRINCIPAL)), (3, 0));
    }

    #[test]
    fn freed_places_can_be_taken_again() {
        let share = FairShare::new(4);
        let a = take_all(&share, "a");
        assert_eq!(a.len(), 2);
        let b = take_all(&share, "b");
        assert_eq!((b.len(), share.held("b")), (1, 1));
        drop(a);
        assert_eq!((share.free(), share.held("a")), (3, 0));
        assert_eq!(take_all(&share, "b").len(), 1);
        drop(b);
        assert_eq!(share.free(), 4);
    }

    #[test]
    fn one_place_can_be_taken() {
        let share = FairShare::new(1);
        let place = share.try_take("a");
        assert!(place.is_some() && share.try_take("b").is_none());
        drop(place);
        assert!(share.try_take("b").is_some());
    }

    #[tokio::test]
    async fn freed_place_wakes_a_wait() {
        let share = FairShare::new(1);
        drop(share.try_take("a"));
        share.freed().await;
    }
}
