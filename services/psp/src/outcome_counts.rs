//! Counts charges and refunds by outcome. A pending one is counted as `pending` when it is accepted,
//! and again by its final status when it is settled. So `captured` counts physical charges, and
//! `refunded` physical refunds. A stored 5xx that moved no money counts as `error`.

use crate::domain::operation::Operation;
use crate::domain::{charge, refund};

const CHARGES: &str = "psp_charges_total";
const REFUNDS: &str = "psp_refunds_total";

/// Exports every status from the start, so that the first one of each is seen as an increase.
pub(crate) fn export() {
    for status in charge::Status::ALL {
        add(Operation::Charge, status.as_str(), 0);
    }
    for status in refund::Status::ALL {
        add(Operation::Refund, status.as_str(), 0);
    }
}

pub(crate) fn add(operation: Operation, outcome: &'static str, count: u64) {
    let name = match operation {
        Operation::Charge => CHARGES,
        Operation::Refund => REFUNDS,
    };
    metrics::counter!(name, "outcome" => outcome).increment(count);
}
