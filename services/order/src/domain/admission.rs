//! How new orders are admitted while orders on their way wait.

use std::time::Duration;

/// Responses are delayed once the wait reaches this part of the longest wait.
const SLOW_FROM: f64 = 0.01;
/// From this part on they are delayed by [`DELAY_MAX`]. Much less than 1, so that clients have slowed down long before
/// the limit.
const SLOWEST_FROM: f64 = 0.1;
/// The response to a new order is delayed by this at most.
const DELAY_MAX: Duration = Duration::from_secs(2);
/// A principal that sends little sees this part of the common wait: its orders are shed later than the others.
const SHARE_MIN: f64 = 0.5;

/// How long orders wait, and how much a principal contributes to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waiting {
    /// What every order waits.
    pub common: Duration,
    /// What the orders of this principal wait besides.
    pub own: Duration,
    /// Recent orders of the principal, relative to the average principal.
    pub weight: f64,
}

/// The decision about a new order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admittance {
    /// Accept it, and respond after this delay.
    Accept {
        delay: Duration,
    },
    Shed,
}

/// Decides about a new order of a principal. `wait_max`: how long an order may wait.
pub fn admit(waiting: Waiting, wait_max: Duration) -> Admittance {
    let weight = waiting.weight.clamp(0.0, 1.0);
    let common = waiting.common.mul_f64(weight.max(SHARE_MIN));
    let part = (common + waiting.own).as_secs_f64() / wait_max.as_secs_f64();
    if part >= 1.0 {
        return Admittance::Shed;
    }
    let slow = ((part - SLOW_FROM) / (SLOWEST_FROM - SLOW_FROM)).clamp(0.0, 1.0);
    // A principal that waits because of its own orders is delayed in full.
    let weight = if waiting.own.is_zero() { weight } else { 1.0 };
    Admittance::Accept {
        delay: DELAY_MAX.mul_f64(slow * weight),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_secs(30);

    fn after(common: u64, own: u64, weight: f64) -> Admittance {
        after_ms(common * 1_000, own * 1_000, weight)
    }

    fn after_ms(common_ms: u64, own_ms: u64, weight: f64) -> Admittance {
        let waiting = Waiting {
            common: Duration::from_millis(common_ms),
            own: Duration::from_millis(own_ms),
            weight,
        };
        admit(waiting, MAX)
    }

    fn delay(admittance: Admittance) -> Duration {
        match admittance {
            Admittance::Accept { delay } => delay,
            Admittance::Shed => panic!("shed"),
        }
    }

    #[test]
    fn order_is_delayed_more_the_longer_others_wait() {
        assert_eq!(delay(after(0, 0, 1.0)), Duration::ZERO);
        assert_eq!(delay(after_ms(300, 0, 1.0)), Duration::ZERO);
        let (some, more) = (delay(after(1, 0, 1.0)), delay(after(2, 0, 1.0)));
        assert!(Duration::ZERO < some && some < more && more < DELAY_MAX);
        for wait in [3, 10, 29] {
            assert_eq!(delay(after(wait, 0, 1.0)), DELAY_MAX, "after {wait} s");
        }
    }

    #[test]
    fn order_is_shed_once_others_wait_too_long() {
        assert_eq!(after(30, 0, 1.0), Admittance::Shed);
        assert_eq!(after(20, 10, 1.0), Admittance::Shed);
        assert_eq!(after(0, 30, 0.0), Admittance::Shed);
    }

    #[test]
    fn principal_that_sends_little_is_slowed_and_shed_later() {
        assert!(delay(after(20, 0, 0.1)) < delay(after(20, 0, 1.0)));
        assert_eq!(after(30, 0, 2.0), Admittance::Shed);
        delay(after(59, 0, 0.1));
        assert_eq!(after(60, 0, 0.1), Admittance::Shed);
    }

    #[test]
    fn backlog_of_one_principal_slows_only_that_one() {
        assert!(delay(after(0, 20, 0.1)) > Duration::ZERO);
        assert_eq!(delay(after(0, 0, 3.0)), Duration::ZERO);
    }
}
