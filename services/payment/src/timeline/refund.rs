//! The steps of one refund, from its row.

use steps::{Severity, Step};

use super::{Try, sent};
use crate::domain::RefundStatus;
use crate::store::timeline::RefundRow;

const TABLE: &str = "refunds";

pub(super) fn steps(row: &RefundRow) -> Vec<Step> {
    let name = format!("refund of attempt {}", row.attempt);
    let is_untouched = row.tries == 0 && row.updated_at == row.created_at;
    let mut steps = vec![
        Step::new(row.created_at, TABLE, format!("{name} stored"))
            .commit(is_untouched.then(|| row.commit.clone()))
            .fact("provider key", &row.key)
            .fact("charge", &row.charge_id)
            .fact("amount", format!("{} {}", row.amount, row.currency))
            .fact("reason", &row.reason)
            .fact("tries", row.tries),
    ];
    let last = Try {
        key: &row.key,
        tries: row.tries,
        sent_at: row.sent_at,
    };
    steps.extend(sent(TABLE, &name, last));
    steps.extend(result(row, &name));
    steps
}

fn result(row: &RefundRow, name: &str) -> Option<Step> {
    let status: Option<RefundStatus> = row.status.parse().ok();
    let severity = match status {
        Some(RefundStatus::Pending) => return None,
        Some(RefundStatus::Refunded) => Severity::Money,
        _ => Severity::Fault,
    };
    // An open refund may have been leased since, which changes the row and not this time.
    let is_open = status == Some(RefundStatus::Unknown);
    let step = Step::new(row.updated_at, TABLE, format!("{name} is {}", row.status));
    let step = step
        .severity(severity)
        .commit((!is_open).then(|| row.commit.clone()))
        .fact("tries", row.tries)
        .fact_if("refund", row.refund_id.as_ref())
        .fact_if("failure code", row.failure_code.as_ref());
    Some(step.fact_if("error", row.last_error.as_ref()))
}
