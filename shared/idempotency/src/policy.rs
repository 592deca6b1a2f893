//! The rules for idempotency keys that clients may rely on, in machine-readable form.

use serde::Serialize;

use crate::key;

/// The body of `GET /idempotency-policy`.
#[derive(Clone, Debug, Serialize)]
pub struct Policy {
    pub header: &'static str,
    pub replay_header: &'static str,
    pub key_length_min: usize,
    pub key_length_max: usize,
    pub key_characters: &'static str,
    /// Minimum time that a key is honoured, counted from its first use.
    pub window_seconds: u64,
    pub scope: [&'static str; 3],
    pub fingerprint: &'static str,
    /// The response in each situation.
    pub same_key_same_request: &'static str,
    pub same_key_other_request: u16,
    pub key_in_flight: u16,
    pub key_missing_or_malformed: u16,
    pub stored_statuses: &'static str,
    /// Routes that require a key.
    pub routes: &'static [&'static str],
}

impl Policy {
    pub fn new(window_seconds: u64, routes: &'static [&'static str]) -> Self {
        Self {
            header: "Idempotency-Key",
            replay_header: "Idempotent-Replayed",
            key_length_min: 1,
            key_length_max: key::LEN_MAX,
            key_characters: "visible ASCII, bare or as a quoted structured-field string",
            window_seconds,
            scope: ["principal", "method and route", "key"],
            fingerprint: "SHA-256 over method, path and canonical JSON body",
            same_key_same_request: "the original status, headers and body are replayed",
            same_key_other_request: 422,
            key_in_flight: 409,
            key_missing_or_malformed: 400,
            stored_statuses: "2xx, and 4xx that are a result of the work; never 5xx or validation errors",
            routes,
        }
    }
}
