//! Admission: slows new orders down, then sheds them, while orders on their way wait too long.
//!
//! Without it the service would accept more than the others can work off, and its own commits would take the
//! database from them. Replays and reads are not affected.

mod recent;
mod watcher;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use service_kit::Waits;
use service_kit::pressure::principal_key;
use tokio::time::Instant;

use crate::domain::admission::{Admittance, Waiting, admit};
use recent::RecentOrders;

pub use watcher::Watcher;

/// Shared by the routes, the watcher and the consumer.
#[derive(Debug)]
pub struct Admission {
    /// `None` admits every order.
    wait_max: Option<Duration>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waits: Waits,
    recent: RecentOrders,
    /// The first order after the last event from another service.
    unanswered_since: Option<Instant>,
}

impl Admission {
    /// `wait_max`: how long an order may wait; zero admits every order.
    pub fn new(wait_max: Duration) -> Self {
        Self {
            wait_max: Some(wait_max).filter(|it| !it.is_zero()),
            state: Mutex::default(),
        }
    }

    /// The decision about a new order of this principal.
    pub fn admit(&self, principal: &str) -> Admittance {
        let Some(wait_max) = self.wait_max else {
            let delay = Duration::ZERO;
            return Admittance::Accept { delay };
        };
        let state = self.state();
        let own = match state.waits.seconds_by_principal.is_empty() {
            true => None,
            false => state
                .waits
                .seconds_by_principal
                .get(&principal_key(principal)),
        };
        let waiting = Waiting {
            common: seconds(state.waits.seconds),
            own: own.copied().map(seconds).unwrap_or_default(),
            weight: state.recent.weight(principal),
        };
        admit(waiting, wait_max)
    }

    /// When a client whose order was shed may try again.
    pub fn retry_after(&self) -> Duration {
        let wait = self.wait_max.unwrap_or_default() / 10;
        wait.max(Duration::from_secs(1))
    }

    /// An order of this principal was accepted.
    pub fn accepted(&self, principal: &str) {
        let mut state = self.state();
        state.recent.add(principal);
        state.unanswered_since.get_or_insert_with(Instant::now);
    }

    /// Events from other services have arrived: they work.
    pub fn heard(&self) {
        self.state().unanswered_since = None;
    }

    /// How long orders have waited without any event from another service.
    fn silence(&self) -> Duration {
        let since = self.state().unanswered_since;
        since.map(|since| since.elapsed()).unwrap_or_default()
    }

    fn set_waits(&self, waits: Waits) {
        self.state().waits = waits;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Another service computed the number. One that is no duration counts as no wait.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(common: f64, own: &[(&str, f64)]) -> Waits {
        Waits {
            seconds: common,
            seconds_by_principal: own
                .iter()
                .map(|(name, seconds)| (principal_key(name), *seconds))
                .collect(),
        }
    }

    #[tokio::test]
    async fn heavy_principal_is_shed_before_a_light_one() {
        let admission = Admission::new(Duration::from_secs(10));
        (0..100).for_each(|_| admission.accepted("heavy"));
        admission.accepted("light");
        admission.set_waits(waits(12.0, &[]));
        assert_eq!(admission.admit("heavy"), Admittance::Shed);
        assert_ne!(admission.admit("light"), Admittance::Shed);
        assert_ne!(admission.admit("new"), Admittance::Shed);
        admission.set_waits(waits(21.0, &[]));
        assert_eq!(admission.admit("light"), Admittance::Shed);
    }

    #[tokio::test]
    async fn slow_charges_of_one_principal_sheds_only_its_orders() {
        let admission = Admission::new(Duration::from_secs(10));
        admission.set_waits(waits(0.0, &[("slow", 11.0)]));
        assert_eq!(admission.admit("slow"), Admittance::Shed);
        assert_ne!(admission.admit("other"), Admittance::Shed);
    }

    #[tokio::test]
    async fn limit_of_zero_admits_every_order() {
        let admission = Admission::new(Duration::ZERO);
        admission.set_waits(waits(1e9, &[]));
        assert_ne!(admission.admit("anyone"), Admittance::Shed);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_begins_with_an_order_and_ends_with_an_event() {
        let admission = Admission::new(Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(admission.silence(), Duration::ZERO, "nothing is expected");
        admission.accepted("a");
        tokio::time::advance(Duration::from_secs(5)).await;
        admission.accepted("a");
        assert_eq!(admission.silence(), Duration::from_secs(5));
        admission.heard();
        assert_eq!(admission.silence(), Duration::ZERO);
    }
}
