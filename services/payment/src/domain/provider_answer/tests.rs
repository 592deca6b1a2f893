use super::*;

/// One answer of each kind. The tables in the tests of both statuses rely on this order.
pub(crate) fn one_of_each() -> [ProviderAnswer; 6] {
    [
        captured("ch_1"),
        ProviderAnswer::Declined {
            code: "card_declined".to_owned(),
        },
        ProviderAnswer::Cancelled,
        ProviderAnswer::Absent,
        ProviderAnswer::Unknown {
            reason: "timed out".to_owned(),
            retry_after: None,
        },
        ProviderAnswer::Refunded {
            refund_id: "re_1".to_owned(),
        },
    ]
}

fn response(status: u16, body: &str) -> Response {
    Response {
        status,
        body: body.as_bytes().to_vec(),
        retry_after: Some(Duration::from_secs(3)),
    }
}

fn captured(id: &str) -> ProviderAnswer {
    ProviderAnswer::Captured {
        charge_id: id.to_owned(),
    }
}

fn is_unknown(answer: &ProviderAnswer) -> bool {
    let expected = Some(Duration::from_secs(3));
    matches!(answer, ProviderAnswer::Unknown { retry_after, .. } if *retry_after == expected)
}

#[test]
fn capture_and_decline_are_definite() {
    let answer = read_charge(&response(201, r#"{"id":"ch_1","status":"captured"}"#));
    assert_eq!(answer, captured("ch_1"));
    let declined = response(
        402,
        r#"{"error":{"code":"insufficient_funds","message":""}}"#,
    );
    let code = "insufficient_funds".to_owned();
    assert_eq!(read_charge(&declined), ProviderAnswer::Declined { code });
}

#[test]
fn cancellation_shows_whether_the_key_was_used() {
    let used = r#"{"key":"k","status":"captured","charge":{"id":"ch_1","status":"captured"}}"#;
    assert_eq!(read_cancellation(&response(200, used)), captured("ch_1"));
    let cancelled = r#"{"key":"k","status":"cancelled"}"#;
    assert_eq!(
        read_cancellation(&response(200, cancelled)),
        ProviderAnswer::Cancelled
    );
    let no_charge = r#"{"key":"k","status":"captured"}"#;
    assert!(is_unknown(&read_cancellation(&response(200, no_charge))));
}

#[test]
fn refund_is_refunded_or_unknown() {
    let refund_id = "re_1".to_owned();
    let refunded = response(201, r#"{"id":"re_1","status":"refunded"}"#);
    assert_eq!(
        read_refund(&refunded),
        ProviderAnswer::Refunded { refund_id }
    );
    let pending = response(201, r#"{"id":"re_1","status":"pending"}"#);
    assert!(is_unknown(&read_refund(&pending)));
}

#[test]
fn every_other_response_is_unknown() {
    for status in 100..600 {
        let empty = response(status, "{}");
        assert!(is_unknown(&read_charge(&empty)), "charge {status}");
        assert!(is_unknown(&read_cancellation(&empty)), "cancel {status}");
        assert!(is_unknown(&read_refund(&empty)), "refund {status}");
        assert!(
            is_unknown(&read_refund_lookup("k", &empty)),
            "look-up {status}"
        );
    }
    for (status, body) in [
        (201, ""),
        (201, r#"{"id":"ch_1","status":"processing"}"#),
        (402, "<html>"),
        (200, "null"),
    ] {
        assert!(
            is_unknown(&read_charge(&response(status, body))),
            "{status}"
        );
    }
}

#[test]
fn charge_is_absent_only_if_both_lists_are_empty() {
    let none = response(200, r#"{"data":[]}"#);
    let ours = response(
        200,
        r#"{"data":[{"id":"ch_1","status":"captured","idempotency_key":"k"}]}"#,
    );
    let other = response(
        200,
        r#"{"data":[{"id":"ch_2","status":"captured","idempotency_key":"j"}]}"#,
    );
    let look = |by_key, by_reference| read_charge_lookup("k", by_key, by_reference);
    assert_eq!(look(&none, &none), ProviderAnswer::Absent);
    assert_eq!(look(&ours, &ours), captured("ch_1"));
    assert_eq!(look(&none, &ours), captured("ch_1"));
    assert!(matches!(
        look(&none, &other),
        ProviderAnswer::Unknown { .. }
    ));
    let down = response(503, "");
    assert!(is_unknown(&look(&down, &none)));
    assert!(is_unknown(&look(&none, &down)));
}
