use super::*;

fn charge(id: &str) -> Charge {
    Charge {
        id: id.to_owned(),
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
        idempotency_key: key.to_owned(),
        amount: 500,
    }
}

#[test]
fn charge_belongs_to_its_attempt_or_is_an_orphan() {
    let is_orphan = |finding| matches!(finding, Finding::Orphan(_));
    let compared = |status, charge_id| compare(&charge("ch"), Some(&attempt(status, charge_id)));
    assert_eq!(
        compared(AttemptStatus::Captured, Some("ch")),
        Finding::Agrees
    );
    assert_eq!(compared(AttemptStatus::Pending, None), Finding::Settle);
    assert_eq!(compared(AttemptStatus::Unknown, None), Finding::Settle);
    assert!(is_orphan(compared(
        AttemptStatus::Captured,
        Some("another")
    )));
    assert!(is_orphan(compared(AttemptStatus::Declined, None)));
    assert!(is_orphan(compared(AttemptStatus::Voided, None)));
    assert_eq!(compare(&charge("ch"), None), Finding::Foreign);
    let mut ours = charge("ch");
    ours.idempotency_key = format!("pay:{}:1", Uuid::nil());
    assert_eq!(compare(&ours, None), Finding::OrphanWithoutAttempt);
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
