//! Compares one page of the books, and applies the result in the same transaction.

use std::collections::{BTreeMap, HashMap};

use anyhow::Context as _;
use chrono::Utc;
use serde_json::json;
use service_kit::database;
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use super::Reconciler;
use crate::charger::Queue;
use crate::domain::ProviderAnswer;
use crate::domain::books::{self, Attempt, Charge, Difference, Finding, OurRefund};
use crate::domain::provider_key::{orphan_refund_key, parse_charge_key};
use crate::follow_ups::FollowUps;
use crate::store::payments::{self, FoundCharge};
use crate::store::reconciliations::{self, Tally};
use crate::store::refunds::{self, FoundRefund, NewRefund};

/// Maximum number of differences that a report lists. All of them are counted.
pub(super) const DIFFERENCES_MAX: usize = 1_000;
/// Maximum number of captured attempts that one page looks for in the books. The range of a page
/// has more attempts than charges only if charges are missing from the books.
const ATTEMPTS_MAX: i64 = 5_000;
/// The reason of the refund of an orphan charge.
const ORPHAN: &str = "orphan";

/// The ids of a page: after `after` and up to `last`, or to the end.
#[derive(Clone, Copy)]
pub(super) struct Range<'a> {
    pub(super) after: &'a str,
    pub(super) last: Option<&'a str>,
}

/// The result of a page, before it is written.
#[derive(Default)]
struct PageResult {
    tally: Tally,
    found: Vec<FoundCharge>,
    /// Refunds in the books that are still open here, with what to report about each.
    refunds_found: Vec<(FoundRefund, Difference)>,
    differences: Vec<Difference>,
    follow_ups: FollowUps,
}

impl Reconciler {
    /// Compares and applies one page. Returns how many more differences the report may list.
    pub(super) async fn compare(
        &self,
        report: i64,
        range: Range<'_>,
        charges: &[Charge],
        differences_left: usize,
    ) -> anyhow::Result<usize> {
        let mut connection = database::acquire(&self.pool)
            .await
            .context("starting a page")?;
        let mut tx = connection.begin().await.context("starting a page")?;
        let mut result = PageResult::default();
        let ours = OurRows::read(&mut tx, charges).await?;
        for charge in charges {
            self.compare_charge(&ours, charge, &mut result);
        }
        let captured =
            reconciliations::captured(&mut tx, range.after, range.last, self.grace, ATTEMPTS_MAX)
                .await
                .context("reading captured attempts")?;
        result.tally.attempts = captured.len() as i64;
        let missing = books::not_in_books(charges, &captured);
        result.differences.extend(missing);
        result.write_settled(&mut tx).await?;
        result.write_settled_refunds(&mut tx).await?;
        result.tally.refunds_opened = result.follow_ups.write(&mut tx).await? as i64;
        result.tally.charges = charges.len() as i64;
        result.tally.differing = result.differences.len() as i64;
        result.differences.truncate(differences_left);
        result.tally.differences = json!(result.differences);
        reconciliations::add(&mut tx, report, &result.tally)
            .await
            .context("writing the report")?;
        tx.commit().await.context("committing a page")?;
        self.wake.wake();
        let refunds_due = self.queues.of(Queue::Refunds);
        let principals = result.follow_ups.refund_principals();
        principals.for_each(|principal| refunds_due.wake(principal));
        result
            .follow_ups
            .direct()
            .for_each(|id| self.waiting.settled(id));
        Ok(differences_left - result.differences.len())
    }

    fn compare_charge(&self, ours: &OurRows, charge: &Charge, result: &mut PageResult) {
        let age = (Utc::now() - charge.created_at).to_std();
        let age = age.unwrap_or_default();
        if age < self.grace {
            result.tally.recent += 1;
            return;
        }
        let (attempt, refund) = (ours.attempt(charge), ours.refunds.get(&charge.id));
        match (books::compare(charge, attempt), attempt) {
            (Finding::Orphan(why), _) => result.refund_orphan(charge, why, refund.is_some()),
            (Finding::OrphanWithoutAttempt, _) if age < self.orphan_grace => {
                let detail = "no attempt has its key yet".to_owned();
                let difference = charge.differs("orphan_charge", detail, "waiting");
                result.differences.push(difference);
            }
            (Finding::OrphanWithoutAttempt, _) => {
                result.refund_orphan(charge, "no attempt has its key", refund.is_some());
            }
            (Finding::Foreign, _) => {
                let detail = format!("created under {}", charge.idempotency_key);
                let difference = charge.differs("foreign_charge", detail, "flagged");
                result.differences.push(difference);
            }
            (Finding::Settle, Some(attempt)) => {
                result.settle_attempt(charge, attempt);
                result
                    .differences
                    .extend(books::amount_differs(charge, attempt));
            }
            (_, Some(attempt)) => result
                .differences
                .extend(books::amount_differs(charge, attempt)),
            (_, None) => {}
        }
        result
            .differences
            .extend(books::refund_differences(charge, refund));
        if let (Some(refund_id), Some(refund)) = (books::refund_to_settle(charge, refund), refund) {
            let detail = format!("refund {refund_id} was not recorded yet");
            let difference = charge.differs("refund_unknown", detail, "settled");
            let found = FoundRefund {
                key: refund.key.clone(),
                refund_id: refund_id.to_owned(),
            };
            result.refunds_found.push((found, difference));
        }
    }
}

impl PageResult {
    fn refund_orphan(&mut self, charge: &Charge, why: &str, known: bool) {
        // An earlier reconciliation has opened the refund.
        if known {
            return;
        }
        let detail = format!("{} {}: {why}", charge.amount, charge.currency);
        self.differences
            .push(charge.differs("orphan_charge", detail, "refund opened"));
        let named = parse_charge_key(&charge.idempotency_key);
        let order_id = charge.reference.parse().ok();
        self.follow_ups.add_refund(NewRefund {
            charge_id: charge.id.clone(),
            key: orphan_refund_key(&charge.id),
            order_id: order_id.or(named.map(|(id, _)| id)).unwrap_or(Uuid::nil()),
            attempt: named.map_or(0, |(_, attempt)| attempt),
            principal: String::new(),
            amount: charge.amount,
            currency: charge.currency.clone(),
            reason: ORPHAN.to_owned(),
            correlation_id: format!("reconciler-{}", charge.id),
            traceparent: None,
        });
    }

    fn settle_attempt(&mut self, charge: &Charge, attempt: &Attempt) {
        let mut found = self.found.iter();
        if found.any(|it| (it.order_id, it.attempt) == (attempt.order_id, attempt.attempt)) {
            // A second charge under one key: the next run finds an orphan, because the first charge
            // has settled the attempt.
            return;
        }
        self.found.push(FoundCharge {
            order_id: attempt.order_id,
            attempt: attempt.attempt,
            charge_id: charge.id.clone(),
        });
        let detail = format!(
            "attempt {} was {}",
            attempt.attempt,
            attempt.status.as_str()
        );
        self.differences
            .push(charge.differs("outcome_unknown", detail, "settled"));
    }

    async fn write_settled(&mut self, tx: &mut PgConnection) -> anyhow::Result<()> {
        if self.found.is_empty() {
            return Ok(());
        }
        // Attempts before refunds, and both in the order in which the recorder locks them.
        let found = &mut self.found;
        found.sort_unstable_by_key(|it| (it.order_id, it.attempt));
        let settled = payments::capture_found(tx, &self.found)
            .await
            .context("settling attempts")?;
        self.tally.settled = settled.len() as i64;
        for settled in settled {
            let mut found = self.found.iter();
            let charge =
                found.find(|it| (it.order_id, it.attempt) == (settled.order_id, settled.attempt));
            if let Some(FoundCharge { charge_id, .. }) = charge {
                let charge_id = charge_id.clone();
                let answer = ProviderAnswer::Captured { charge_id };
                self.follow_ups.add_settled(&settled, &answer, None)?;
            }
        }
        Ok(())
    }

    async fn write_settled_refunds(&mut self, tx: &mut PgConnection) -> anyhow::Result<()> {
        if self.refunds_found.is_empty() {
            return Ok(());
        }
        let mut reports: BTreeMap<String, (FoundRefund, Difference)> =
            std::mem::take(&mut self.refunds_found)
                .into_iter()
                .map(|(found, report)| (found.key.clone(), (found, report)))
                .collect();
        let found: Vec<FoundRefund> = reports.values().map(|(found, _)| found.clone()).collect();
        let settled = refunds::settle_found(tx, &found)
            .await
            .context("settling refunds")?;
        self.tally.refunds_settled = settled.len() as i64;
        for settled in settled {
            let report = reports.remove(&settled.key);
            self.differences.extend(report.map(|(_, report)| report));
            self.follow_ups.add_refunded(settled, None)?;
        }
        Ok(())
    }
}

/// Our attempts and refunds for the charges of a page.
struct OurRows {
    attempts: HashMap<(Uuid, i32), Attempt>,
    refunds: HashMap<String, OurRefund>,
}

impl OurRows {
    async fn read(tx: &mut PgConnection, charges: &[Charge]) -> anyhow::Result<Self> {
        let named = charges.iter();
        let (order_ids, numbers): (Vec<Uuid>, Vec<i32>) = named
            .filter_map(|charge| parse_charge_key(&charge.idempotency_key))
            .unzip();
        let attempts = reconciliations::attempts(tx, &order_ids, &numbers)
            .await
            .context("reading attempts")?;
        let ids: Vec<&str> = charges.iter().map(|charge| &*charge.id).collect();
        let refunds = reconciliations::refunds(tx, &ids)
            .await
            .context("reading refunds")?;
        Ok(Self {
            attempts: attempts
                .into_iter()
                .map(|attempt| ((attempt.order_id, attempt.attempt), attempt))
                .collect(),
            refunds: refunds.into_iter().collect(),
        })
    }

    fn attempt(&self, charge: &Charge) -> Option<&Attempt> {
        self.attempts
            .get(&parse_charge_key(&charge.idempotency_key)?)
    }
}
