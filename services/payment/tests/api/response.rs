//! Responses about a direct charge whose outcome is not known yet.

use testkit::ApiResponse;
use uuid::Uuid;

/// Asserts that the outcome is not known yet, and that the response names its payment.
#[track_caller]
pub(crate) fn expect_in_flight(response: &ApiResponse, code: &str, payment_id: Uuid) {
    let problem = response.expect_problem(409, code);
    assert_eq!(response.header("retry-after"), Some("1"));
    assert_eq!(problem["payment_id"], payment_id.to_string());
    assert_eq!(problem["payment_url"], format!("/payments/{payment_id}"));
    assert!(!response.is_replay());
}
