//! Facts about the provider, from the settings.

use std::time::Duration;

use chrono::{DateTime, Utc};

#[derive(Clone, Copy, Debug)]
pub struct ProviderLimits {
    /// How long after its first try a key may be sent again.
    pub resend_max: Duration,
    /// How long after the last send an absence is believed: lookups may lag behind.
    pub absence_age: Duration,
    /// Whether keys can be cancelled.
    pub can_cancel: bool,
    /// Attempts that were requested before this time may have been sent before a restore: they are looked
    /// up, and not sent while an operator keeps this setting.
    pub hold_before: Option<DateTime<Utc>>,
}

impl ProviderLimits {
    /// Whether an attempt that was requested at this time is held.
    pub fn holds(&self, requested_at: Option<DateTime<Utc>>) -> bool {
        let ends = self.hold_before.zip(requested_at);
        ends.is_some_and(|(hold_before, requested_at)| requested_at < hold_before)
    }
}
