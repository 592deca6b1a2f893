use super::*;

fn charge(id: &str) -> Charge {
    Charge {
        id: id.to_owned(),
        status: ChargeStatus::Captured,
        reference: "order".to_owned(),
        amount: 500,
        currency: "USD".to_owned(),
        idempotency_key: "pay:order:1".to_owned(),
        created_at: chrono::Utc::now(),
        refunds: Vec::new(),
    }
}

fn attempt(status: AttemptStatus, charge_id: Option<&str>) -> Attempt {
    Attempt {
        order_id: Uuid::nil(),
        attempt: 1,
        status,
        amount: 500,
        currency: "USD".to_owned(),
        charge_id: charge_id.map(str::to_owned),
    }
}

fn refund(key: &str) -> Refund {
    Refund {
        id: format!("re-{key}"),
        status: RefundEntryStatus::Refunded,
        idempotency_key: key.to_owned(),
        amount: 500,
    }
}

#[test]
fn charge_belongs_to_its_attempt_or_contradicts_it() {
    let contradicts = |finding| matches!(finding, Finding::Contradiction(_));
    let compared = |status, charge_id| compare(&charge("ch"), Some(&attempt(status, charge_id)));
    let own = compared(AttemptStatus::Captured, Some("ch"));
    assert_eq!(own, Finding::Agrees);
    assert_eq!(compared(AttemptStatus::Pending, None), Finding::Settle);
    assert_eq!(compared(AttemptStatus::Unknown, None), Finding::Settle);
    let other = compared(AttemptStatus::Captured, Some("another"));
    assert!(contradicts(other));
    for settled in [
        AttemptStatus::Declined,
        AttemptStatus::Voided,
        AttemptStatus::Failed,
    ] {
        assert!(contradicts(compared(settled, None)), "{settled:?}");
    }
}

#[test]
fn charge_that_we_cannot_explain_is_never_refunded() {
    let unexplained = |finding| matches!(finding, Finding::Unexplained(_));
    assert!(unexplained(compare(&charge("ch"), None)));
    let mut ours = charge("ch");
    ours.idempotency_key = format!("pay:{}:1", Uuid::nil());
    assert!(unexplained(compare(&ours, None)));
    let mut other_amount = attempt(AttemptStatus::Unknown, None);
    other_amount.amount = 501;
    assert!(unexplained(compare(&charge("ch"), Some(&other_amount))));
}

#[test]
fn charge_without_money_settles_nothing() {
    for status in [ChargeStatus::Pending, ChargeStatus::Failed] {
        let mut none = charge("ch");
        none.status = status;
        assert_eq!(compare(&none, None), Finding::Agrees);
        let open = attempt(AttemptStatus::Unknown, None);
        assert_eq!(compare(&none, Some(&open)), Finding::Agrees);
        let captured = attempt(AttemptStatus::Captured, Some("ch"));
        assert_eq!(compare(&none, Some(&captured)), Finding::NotCaptured);
    }
}

#[test]
fn refund_by_hand_settles_ours_only_if_it_is_whole() {
    let open = OurRefund {
        key: "ours".to_owned(),
        status: RefundStatus::Pending,
    };
    let mut by_hand = charge("ch");
    by_hand.refunds = vec![refund("by-hand")];
    assert_eq!(refund_to_settle(&by_hand, Some(&open)), Some("re-by-hand"));
    assert!(refund_differences(&by_hand, Some(&open)).is_empty());
    by_hand.refunds[0].amount = 499;
    assert_eq!(refund_to_settle(&by_hand, Some(&open)), None);
    assert_eq!(refund_differences(&by_hand, Some(&open)).len(), 1);
}

#[test]
fn other_amount_or_currency_is_a_mismatch() {
    let mut ours = attempt(AttemptStatus::Captured, Some("ch"));
    assert_eq!(amount_differs(&charge("ch"), &ours), None);
    ours.amount = 501;
    assert!(amount_differs(&charge("ch"), &ours).is_some());
    ours.amount = 500;
    ours.currency = "EUR".to_owned();
    assert!(amount_differs(&charge("ch"), &ours).is_some());
}

#[test]
fn refund_is_settled_flagged_or_agrees() {
    let ours = |status| OurRefund {
        key: "refund:order:1".to_owned(),
        status,
    };
    let (open, refunded) = (ours(RefundStatus::Unknown), ours(RefundStatus::Refunded));
    let mut charge = charge("ch");
    assert_eq!(refund_differences(&charge, None), []);
    assert_eq!(refund_differences(&charge, Some(&open)), []);
    let missing = &refund_differences(&charge, Some(&refunded))[0];
    assert_eq!(missing.kind, "refund_not_in_books");

    charge.refunds.push(refund("refund:order:1"));
    assert_eq!(refund_differences(&charge, Some(&refunded)), []);
    assert_eq!(refund_to_settle(&charge, Some(&refunded)), None);
    let settle = refund_to_settle(&charge, Some(&open));
    assert_eq!(settle, Some("re-refund:order:1"));
    assert_eq!(refund_to_settle(&charge, None), None);

    charge.refunds.push(refund("by-hand"));
    let found = refund_differences(&charge, Some(&refunded));
    let kinds: Vec<&str> = found.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, ["refund_not_recorded", "refunded_twice"]);
    assert!(found[0].detail.contains("by-hand"));
    charge.refunds[1] = refund("refund:order:1");
    let same_key = refund_differences(&charge, Some(&refunded));
    assert_eq!(same_key.len(), 1, "also under one key");
}

#[test]
fn capture_missing_from_the_books_is_reported() {
    let ours = [
        attempt(AttemptStatus::Captured, Some("ch-1")),
        attempt(AttemptStatus::Captured, Some("ch-2")),
    ];
    let missing: Vec<Difference> = not_in_books(&[charge("ch-1")], &ours).collect();
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0].charge_id, "ch-2");
}
