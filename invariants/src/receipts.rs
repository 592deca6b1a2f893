//! Compares the receipt service's log of mails with the orders and payments.

use std::collections::{BTreeMap, BTreeSet};

use crate::Databases;
use crate::query::per_order;

/// Mails that are not sent yet.
pub(crate) const PENDING: &str = "select count(*) from receipts where status = 'pending'";

/// What requires the mails of one type. Direct charges are not announced on the topic, so they have no
/// mail.
struct Expected {
    mail_type: &'static str,
    /// The outcomes per order that require a mail.
    required: &'static str,
    /// The outcomes per order that allow one: also those whose customer payment does not know.
    allowed: &'static str,
}

const CHARGED: &str = "select order_id::text, count(*) from payments
     where charge_id is not null and principal_id is null group by 1";
/// A charge that was refunded before it was recorded is not announced as captured. It may have been
/// announced before, if payment's database was restored to an older state.
const RECEIPTS: &str = "select order_id::text, count(*) from payments
     where charge_id is not null and principal_id is null
       and not exists (select from refunds where refunds.charge_id = payments.charge_id
                                             and reason = 'refunded_by_hand')
     group by 1";
const DECLINES: &str = "select order_id::text, count(*) from payments
     where status = 'declined' and principal_id is null group by 1";
const NAMED_DECLINES: &str = "select order_id::text, count(*) from payments
     where status = 'declined' and principal_id is null and customer_id <> '' group by 1";
/// Order may have opened the next attempt automatically: then there is no mail.
const FAILURES: &str = "select order_id::text, count(*) from payments
     where status = 'failed' and principal_id is null group by 1";
/// After a cancellation request the order cannot be paid again, so its failed payment has no mail.
const PAYABLE_FAILURES: &str = "select order_id::text, count(*) from payments
     where status = 'failed' and principal_id is null and rejected_at is null group by 1";
/// A declined or failed attempt is closed by a rejection too.
const CANCELLATIONS: &str = "select order_id::text, count(*) from payments
     where (status = 'voided' or status in ('declined', 'failed') and rejected_at is not null)
       and principal_id is null group by 1";
const NAMED_CANCELLATIONS: &str = "select order_id::text, count(*) from payments
     where (status = 'voided' or status in ('declined', 'failed') and rejected_at is not null)
       and principal_id is null and customer_id <> '' group by 1";
/// The refund of an orphan charge changes no order, and is not announced.
const REFUNDS: &str = "select order_id::text, count(*) from refunds
     where status = 'refunded' and key = format('refund:%s:%s', order_id, attempt) group by 1";

const EXPECTED: [Expected; 5] = [
    Expected {
        mail_type: "receipt",
        required: RECEIPTS,
        allowed: CHARGED,
    },
    Expected {
        mail_type: "decline",
        required: NAMED_DECLINES,
        allowed: DECLINES,
    },
    Expected {
        mail_type: "payment_failure",
        required: PAYABLE_FAILURES,
        allowed: FAILURES,
    },
    Expected {
        mail_type: "cancellation",
        required: NAMED_CANCELLATIONS,
        allowed: CANCELLATIONS,
    },
    // The mail about the charge names the recipient, even if payment does not know the customer.
    Expected {
        mail_type: "refund",
        required: REFUNDS,
        allowed: REFUNDS,
    },
];

/// Orders without a voided attempt among these were cancelled by the order service itself.
const CANCELLED_ORDERS: &str = "select id::text, 1::bigint from orders where status = 'cancelled'";

/// How many failed attempts the order service answered with the next one.
const REOPENED: &str = "select id::text, reopened::bigint from orders where reopened > 0";

const LOGGED: &str = "select order_id::text || ' ' || mail_type, count(*) from receipts group by 1";

/// Orders that do not have exactly the mails that their outcomes require. Orders that the order service has
/// lost do not count: it may have cancelled them.
pub(crate) async fn differences(
    databases: &Databases,
    lost: &BTreeSet<String>,
) -> anyhow::Result<Vec<String>> {
    let Databases {
        order,
        payment,
        receipt,
        ..
    } = databases;
    let cancelled = per_order(order, CANCELLED_ORDERS).await?;
    let reopened = per_order(order, REOPENED).await?;
    let mut outcomes = Vec::new();
    for expected in &EXPECTED {
        let mut required = per_order(payment, expected.required).await?;
        let mut allowed = per_order(payment, expected.allowed).await?;
        if expected.allowed == CANCELLATIONS {
            for order in cancelled.keys().filter(|it| !allowed.contains_key(*it)) {
                required.insert(order.clone(), 1);
            }
            for order in cancelled.keys() {
                allowed.entry(order.clone()).or_insert(1);
            }
        }
        if expected.allowed == FAILURES {
            subtract(&mut required, &reopened);
            subtract(&mut allowed, &reopened);
        }
        outcomes.push((expected.mail_type, required, allowed));
    }
    let logged = per_order(receipt, LOGGED).await?;
    let mut differences = Vec::new();
    for (mail_type, required, allowed) in outcomes {
        let suffix = format!(" {mail_type}");
        let logged: BTreeMap<String, i64> = logged
            .iter()
            .filter_map(|(key, count)| Some((key.strip_suffix(&suffix)?.to_owned(), *count)))
            .collect();
        let is_known = |order: &String| !lost.contains(order);
        let [required, allowed, logged] = [required, allowed, logged].map(|mut counts| {
            counts.retain(|order, _| is_known(order));
            counts
        });
        differences.extend(compare(mail_type, &required, &allowed, &logged));
    }
    Ok(differences)
}

fn subtract(counts: &mut BTreeMap<String, i64>, less: &BTreeMap<String, i64>) {
    for (order, count) in counts {
        *count = (*count - less.get(order).copied().unwrap_or_default()).max(0);
    }
}

fn compare(
    mail_type: &str,
    required: &BTreeMap<String, i64>,
    allowed: &BTreeMap<String, i64>,
    logged: &BTreeMap<String, i64>,
) -> Vec<String> {
    let mut orders: Vec<&String> = allowed.keys().chain(logged.keys()).collect();
    orders.sort_unstable();
    orders.dedup();
    let count = |of: &BTreeMap<String, i64>, order| of.get(order).copied().unwrap_or_default();
    let differences = orders.into_iter().filter_map(|order| {
        let range = count(required, order)..=count(allowed, order);
        let logged = count(logged, order);
        let differ = !range.contains(&logged);
        let (least, most) = (range.start(), range.end());
        differ
            .then(|| format!("{order}: {logged} mails of type {mail_type}, not {least} to {most}"))
    });
    differences.collect()
}

#[cfg(test)]
mod tests {
    use payment::domain::{AttemptStatus, RefundStatus};
    use receipt::domain::MailType;
    use receipt::domain::status::Status;

    use super::*;
    use crate::status_literals::assert_known;

    #[test]
    fn status_literals_exist_in_the_services() {
        assert_known(PENDING, &[Status::Pending.as_str()]);
        let attempts = AttemptStatus::ALL.map(AttemptStatus::as_str);
        for query in [DECLINES, FAILURES, PAYABLE_FAILURES, CANCELLATIONS] {
            assert_known(query, &attempts);
        }
        let orders = order::domain::Status::ALL.map(order::domain::Status::as_str);
        assert_known(CANCELLED_ORDERS, &orders);
        let refunded = RefundStatus::Refunded.as_str();
        assert!(REFUNDS.contains(&format!("status = '{refunded}'")));
    }

    #[test]
    fn every_mail_type_is_compared() {
        let compared = EXPECTED.map(|expected| expected.mail_type);
        assert_eq!(compared, MailType::ALL.map(MailType::as_str));
    }

    #[test]
    fn missing_and_surplus_mails_are_differences() {
        let of = |pairs: &[(&str, i64)]| -> BTreeMap<String, i64> {
            let pairs = pairs.iter();
            pairs
                .map(|(order, count)| ((*order).to_owned(), *count))
                .collect()
        };
        let required = of(&[("right", 2), ("missing", 1), ("twice", 1)]);
        let allowed = of(&[("right", 2), ("missing", 1), ("twice", 1), ("unnamed", 1)]);
        let logged = of(&[("right", 2), ("twice", 2), ("stray", 1)]);
        let found = compare("decline", &required, &allowed, &logged);
        let orders: Vec<&str> = found.iter().filter_map(|it| it.split(':').next()).collect();
        assert_eq!(orders, ["missing", "stray", "twice"]);
    }

    #[test]
    fn failures_that_order_answers_itself_have_no_mail() {
        let of = |pairs: [(&str, i64); 3]| BTreeMap::from(pairs.map(|(o, n)| (o.to_owned(), n)));
        let mut failures = of([("mailed", 1), ("used up", 4), ("reopened", 1)]);
        subtract(
            &mut failures,
            &of([("used up", 3), ("reopened", 1), ("other", 2)]),
        );
        assert_eq!(
            failures,
            of([("mailed", 1), ("used up", 1), ("reopened", 0)])
        );
    }

    #[test]
    fn sent_is_the_status_of_a_receipt() {
        assert_eq!(endpoints::status::RECEIPT_SENT, Status::Sent.as_str());
    }
}
