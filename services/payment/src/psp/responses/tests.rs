use serde_json::{Value, json};

use super::*;

const EXPECTED: Expected<'_> = Expected {
    reference: "o-1",
    amount: 5_000,
    currency: "USD",
};

fn response(status: u16, body: &Value) -> Response {
    Response {
        status,
        body: body.to_string().into_bytes(),
        retry_after: Some(Duration::from_secs(3)),
        replayed: false,
    }
}

fn entry(id: &str, status: &str, key: &str) -> Value {
    json!({
        "id": id, "status": status, "reference": "o-1", "amount": 5_000, "currency": "USD",
        "idempotency_key": key, "charge_id": "ch_1",
    })
}

fn error(code: &str) -> Value {
    json!({ "error": { "code": code, "message": "no" } })
}

fn list(entries: &[Value]) -> Response {
    response(200, &json!({ "data": entries }))
}

fn captured(id: &str) -> ProviderAnswer {
    ProviderAnswer::Captured {
        charge_id: id.to_owned(),
    }
}

fn failed(code: &str) -> ProviderAnswer {
    ProviderAnswer::Failed {
        code: code.to_owned(),
    }
}

fn refunded(id: &str) -> ProviderAnswer {
    ProviderAnswer::Refunded {
        refund_id: id.to_owned(),
    }
}

#[test]
fn status_of_a_charge_decides() {
    for (status, expected) in [
        ("captured", captured("ch_1")),
        ("pending", ProviderAnswer::Processing),
    ] {
        let answer = charge(&EXPECTED, &response(201, &entry("ch_1", status, "k")));
        assert_eq!(answer, expected);
    }
    let mut late = entry("ch_1", "failed", "k");
    late["failure_code"] = json!("insufficient_funds");
    let answer = charge(&EXPECTED, &response(200, &late));
    assert_eq!(answer, failed("insufficient_funds"));
    let other = charge(&EXPECTED, &response(200, &entry("ch_1", "odd", "k")));
    assert_eq!(other.name(), "unknown");
}

#[test]
fn charge_that_is_not_what_we_asked_for_is_not_accepted() {
    for (member, value) in [
        ("amount", json!(4_999)),
        ("currency", json!("EUR")),
        ("reference", json!("o-2")),
    ] {
        let mut other = entry("ch_1", "captured", "k");
        other[member] = value;
        let answer = charge(&EXPECTED, &response(201, &other));
        assert_eq!(answer.name(), "not_accepted", "{member}");
    }
}

#[test]
fn only_three_statuses_with_a_code_are_definite_errors() {
    for status in 100..600 {
        for body in [json!({}), error("some_code")] {
            let answer = charge(&EXPECTED, &response(status, &body));
            let expected = match (status, body == json!({})) {
                (400 | 404 | 422, false) => "failed",
                (402, false) => "declined",
                (401 | 403 | 408 | 409 | 425 | 429, _) => "not_accepted",
                _ => "unknown",
            };
            assert_eq!(answer.name(), expected, "{status} {body}");
        }
    }
    let reused = charge(&EXPECTED, &response(422, &error(KEY_REUSED)));
    assert_eq!(reused.name(), "not_accepted");
}

#[test]
fn replayed_server_error_spends_the_key() {
    let mut stored = response(500, &error("provider_error"));
    assert_eq!(charge(&EXPECTED, &stored).name(), "unknown");
    stored.replayed = true;
    assert_eq!(charge(&EXPECTED, &stored).name(), "key_spent");
    assert_eq!(refund(&EXPECTED, &stored).name(), "key_spent");
    let none = list(&[]);
    let look_up = charge_lookup(&EXPECTED, "k", &stored, &none);
    assert_eq!(look_up.name(), "unknown", "says nothing about the key");
}

#[test]
fn cancellation_shows_whether_the_key_was_used() {
    let body =
        |status: &str, charge: Value| json!({ "key": "k", "status": status, "charge": charge });
    let read = |body: &Value| cancellation(&EXPECTED, &response(200, body));
    let used = body("captured", entry("ch_1", "captured", "k"));
    assert_eq!(read(&used), captured("ch_1"));
    let later = body("pending", entry("ch_1", "pending", "k"));
    assert_eq!(read(&later), ProviderAnswer::Processing);
    assert_eq!(
        read(&body("cancelled", Value::Null)),
        ProviderAnswer::Cancelled
    );
    assert_eq!(read(&body("captured", Value::Null)).name(), "unknown");
    // The provider has no cancellation: the key may still have been used.
    let missing = response(404, &error("not_supported"));
    assert_eq!(cancellation(&EXPECTED, &missing).name(), "not_accepted");
}

#[test]
fn charge_is_absent_only_if_no_money_moved_under_the_order() {
    let none = list(&[]);
    let ours = list(&[entry("ch_1", "captured", "k")]);
    let other = list(&[entry("ch_2", "captured", "j")]);
    let failed_before = list(&[entry("ch_2", "failed", "j")]);
    let look = |by_key, by_reference| charge_lookup(&EXPECTED, "k", by_key, by_reference);
    assert_eq!(look(&none, &none), ProviderAnswer::Absent);
    assert_eq!(look(&none, &failed_before), ProviderAnswer::Absent);
    assert_eq!(look(&ours, &ours), captured("ch_1"));
    assert_eq!(look(&none, &ours), captured("ch_1"));
    assert_eq!(look(&none, &other).name(), "unknown");
    let down = response(503, &json!({}));
    assert_eq!(look(&down, &none).name(), "unknown");
    assert_eq!(look(&none, &down).name(), "unknown");
    let unauthorised = response(401, &json!({}));
    assert_eq!(look(&unauthorised, &none).name(), "not_accepted");
}

#[test]
fn charge_refunded_by_hand_is_seen() {
    let with = |refunds: Value| {
        let mut charge = entry("ch_1", "captured", "k");
        charge["refunds"] = refunds;
        charge_lookup(&EXPECTED, "k", &list(&[charge]), &list(&[]))
    };
    // A charge shows less of its refunds than a lookup of the refund does.
    let refund = |id: &str, status: &str, amount: i64| json!({ "id": id, "status": status, "amount": amount, "idempotency_key": "by-hand" });
    let part = refund("re_1", "refunded", 4_000);
    assert_eq!(with(json!([part])), captured("ch_1"), "a part is not all");
    let rest = refund("re_2", "refunded", 1_000);
    let whole = ProviderAnswer::RefundedByHand {
        charge_id: "ch_1".to_owned(),
        refund_id: "re_2".to_owned(),
    };
    assert_eq!(with(json!([part, rest])), whole);
    let failed = refund("re_3", "failed", 5_000);
    assert_eq!(with(json!([failed])), captured("ch_1"));
}

#[test]
fn status_of_a_refund_decides() {
    let read = |status: u16, body: &Value| refund(&EXPECTED, &response(status, body));
    assert_eq!(read(201, &entry("re_1", "refunded", "k")), refunded("re_1"));
    let pending = read(201, &entry("re_1", "pending", "k"));
    assert_eq!(pending, ProviderAnswer::Processing);
    assert_eq!(
        read(422, &error("charge_disputed")),
        failed("charge_disputed")
    );
    assert_eq!(read(422, &error(ALREADY_REFUNDED)).name(), "key_spent");
    assert_eq!(read(403, &error("forbidden")).name(), "not_accepted");
}

#[test]
fn refund_by_hand_settles_ours() {
    let none = list(&[]);
    let look = |by_key: &Response, by_charge: &Response| {
        refund_lookup(&EXPECTED, "k", "ch_1", by_key, by_charge)
    };
    assert_eq!(look(&none, &none), ProviderAnswer::Absent);
    let ours = list(&[entry("re_1", "refunded", "k")]);
    assert_eq!(look(&ours, &none), refunded("re_1"));
    let by_hand = list(&[entry("re_2", "refunded", "by-hand")]);
    assert_eq!(look(&none, &by_hand), refunded("re_2"));
    let pending = list(&[entry("re_2", "pending", "by-hand")]);
    assert_eq!(look(&none, &pending), ProviderAnswer::Processing);
    let mut part = entry("re_2", "refunded", "by-hand");
    part["amount"] = json!(1);
    assert_eq!(look(&none, &list(&[part])), failed(PARTIALLY_REFUNDED));
    // The provider ignores the filter.
    let mut other = entry("re_3", "refunded", "by-hand");
    other["charge_id"] = json!("ch_2");
    assert_eq!(look(&none, &list(&[other])), ProviderAnswer::Absent);
}
