use super::*;

fn reply(status: u16, body: &str) -> Reply {
    Reply {
        status,
        body: body.as_bytes().to_vec(),
        retry_after: Some(Duration::from_secs(3)),
    }
}

fn captured(id: &str) -> Answer {
    Answer::Captured {
        charge_id: id.to_owned(),
    }
}

fn is_unknown(answer: &Answer) -> bool {
    let told_when = Some(Duration::from_secs(3));
    matches!(answer, Answer::Unknown { retry_after, .. } if *retry_after == told_when)
}

#[test]
fn a_capture_and_a_decline_are_definite() {
    let answer = of_charge(&reply(201, r#"{"id":"ch_1","status":"captured"}"#));
    assert_eq!(answer, captured("ch_1"));
    let declined = reply(
        402,
        r#"{"error":{"code":"insufficient_funds","message":""}}"#,
    );
    let code = "insufficient_funds".to_owned();
    assert_eq!(of_charge(&declined), Answer::Declined { code });
}

#[test]
fn a_cancellation_tells_whether_the_key_was_used() {
    let used = r#"{"key":"k","status":"captured","charge":{"id":"ch_1","status":"captured"}}"#;
    assert_eq!(of_cancellation(&reply(200, used)), captured("ch_1"));
    let burnt = r#"{"key":"k","status":"cancelled"}"#;
    assert_eq!(of_cancellation(&reply(200, burnt)), Answer::Cancelled);
    let no_charge = r#"{"key":"k","status":"captured"}"#;
    assert!(is_unknown(&of_cancellation(&reply(200, no_charge))));
}

#[test]
fn a_refund_is_refunded_or_unknown() {
    let refund_id = "re_1".to_owned();
    let refunded = reply(201, r#"{"id":"re_1","status":"refunded"}"#);
    assert_eq!(of_refund(&refunded), Answer::Refunded { refund_id });
    let pending = reply(201, r#"{"id":"re_1","status":"pending"}"#);
    assert!(is_unknown(&of_refund(&pending)));
}

#[test]
fn every_other_status_leaves_the_outcome_unknown() {
    for status in 100..600 {
        let empty = reply(status, "{}");
        assert!(is_unknown(&of_charge(&empty)), "charge {status}");
        assert!(is_unknown(&of_cancellation(&empty)), "cancel {status}");
        assert!(is_unknown(&of_refund(&empty)), "refund {status}");
        assert!(
            is_unknown(&of_refund_lookup("k", &empty)),
            "look-up {status}"
        );
    }
    for (status, body) in [
        (201, ""),
        (201, r#"{"id":"ch_1","status":"processing"}"#),
        (402, "<html>"),
        (200, "null"),
    ] {
        assert!(is_unknown(&of_charge(&reply(status, body))), "{status}");
    }
}

#[test]
fn only_books_that_are_empty_both_ways_mean_that_there_is_no_charge() {
    let none = reply(200, r#"{"data":[]}"#);
    let ours = reply(
        200,
        r#"{"data":[{"id":"ch_1","status":"captured","idempotency_key":"k"}]}"#,
    );
    let other = reply(
        200,
        r#"{"data":[{"id":"ch_2","status":"captured","idempotency_key":"j"}]}"#,
    );
    let look = |by_key, by_reference| of_charge_lookup("k", by_key, by_reference);
    assert_eq!(look(&none, &none), Answer::Absent);
    assert_eq!(look(&ours, &ours), captured("ch_1"));
    assert_eq!(look(&none, &ours), captured("ch_1"));
    assert!(matches!(look(&none, &other), Answer::Unknown { .. }));
    let down = reply(503, "");
    assert!(is_unknown(&look(&down, &none)));
    assert!(is_unknown(&look(&none, &down)));
}
