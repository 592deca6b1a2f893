#![doc = include_str!("../README.md")]

mod fingerprint;
pub mod http;
mod key;
mod policy;
mod problem;
mod response;
mod settings;
pub mod store;
mod sweep;
pub mod timeline;

pub use fingerprint::{ContentHash, Fingerprint};
pub use key::{Key, MalformedKey};
pub use policy::Policy;
pub use response::StoredResponse;
pub use settings::Settings;
pub use sweep::{SWEEP_ROWS_MAX, sweep};

/// A key with its principal and route. The same key of two principals, or on two routes, never
/// collides.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    pub principal_id: &'a str,
    /// Method and route template, such as `POST /orders`.
    pub route: &'a str,
    pub key: &'a Key,
}

impl Scope<'_> {
    /// Id of the advisory lock that one request at a time holds for this key. Two keys may have the
    /// same id by chance. Then one request gets "in flight" and retries, which is harmless.
    pub fn lock_id(&self) -> i64 {
        fingerprint::lock_id(&[self.principal_id, self.route, self.key.as_str()])
    }
}
