//! Facts about the provider, from the settings.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct ProviderLimits {
    /// How long after its first try a key may be sent again.
    pub resend_max: Duration,
    /// How long after the last send an absence is believed: look-ups may lag behind.
    pub absence_age: Duration,
    /// Whether keys can be cancelled.
    pub can_cancel: bool,
}
