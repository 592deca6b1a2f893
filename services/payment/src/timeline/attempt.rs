//! The steps of one payment attempt, from its row.

use steps::{Severity, Step};

use super::{Try, sent};
use crate::domain::AttemptStatus;
use crate::store::timeline::AttemptRow;

const TABLE: &str = "payments";

/// `stored_by` is the transaction that inserted the row, if another row still shows it.
pub(super) fn steps(row: &AttemptRow, key: &str, stored_by: Option<String>) -> Vec<Step> {
    let name = format!("attempt {}", row.attempt);
    let is_untouched = row.tries == 0 && row.updated_at == row.created_at;
    let stored_by = stored_by.or_else(|| is_untouched.then(|| row.commit.clone()));
    let mut steps = vec![
        Step::new(row.created_at, TABLE, format!("{name} stored"))
            .commit(stored_by)
            .fact("provider key", key)
            .fact("tries", row.tries)
            .fact("amount", format!("{} {}", row.amount, row.currency))
            .fact("payment method", &row.payment_method)
            .fact_if("reference", row.reference.as_ref()),
    ];
    let last = Try {
        key,
        tries: row.tries,
        sent_at: row.sent_at,
    };
    steps.extend(sent(TABLE, &name, last));
    steps.extend(rejection(row, &name));
    steps.extend(result(row, &name));
    steps
}

fn rejection(row: &AttemptRow, name: &str) -> Option<Step> {
    let at = row.rejected_at?;
    let step = Step::new(at, TABLE, format!("{name}: rejection recorded"));
    let step = step.commit(is_last_change(row).then(|| row.commit.clone()));
    Some(step.fact_if("reason", row.rejection_reason.as_ref()))
}

/// Whether the rejection is the row's last change. A lease would have changed the row again.
fn is_last_change(row: &AttemptRow) -> bool {
    row.rejected_at == Some(row.updated_at) && !row.leased
}

fn result(row: &AttemptRow, name: &str) -> Option<Step> {
    let status: Option<AttemptStatus> = row.status.parse().ok();
    let severity = match status {
        Some(AttemptStatus::Pending) => return None,
        Some(AttemptStatus::Captured) => Severity::Money,
        Some(AttemptStatus::Unknown) => Severity::Fault,
        _ => Severity::Normal,
    };
    let is_open = status == Some(AttemptStatus::Unknown);
    // A lease changes the row and not this time. A rejection changes both.
    let is_own_commit = !is_open && !is_last_change(row);
    let step = Step::new(row.updated_at, TABLE, format!("{name} is {}", row.status));
    let step = step
        .severity(severity)
        .commit(is_own_commit.then(|| row.commit.clone()))
        .fact("key state", &row.key_state)
        .fact("tries", row.tries)
        .fact_if("charge", row.charge_id.as_ref())
        .fact_if("decline code", row.decline_code.as_ref())
        .fact_if("failure code", row.failure_code.as_ref())
        .fact_if("error", row.last_error.as_ref());
    Some(step.fact_if("next try", is_open.then_some(row.due_at)))
}
