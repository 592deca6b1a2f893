//! One page of the books, compared and acted upon in one transaction.

use std::collections::HashMap;

use anyhow::Context as _;
use chrono::Utc;
use serde_json::json;
use service_kit::database;
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use super::Reconciler;
use crate::domain::books::{self, Attempt, Charge, Difference, Finding, OurRefund};
use crate::domain::errand::parse_charge_key;
use crate::domain::{Answer, orphan_refund_key};
use crate::outcome::Aftermath;
use crate::store::payments::{self, Found};
use crate::store::reconciliations::{self, Tally};
use crate::store::refunds::{self, NewRefund};

/// Most differences that a report lists; all are counted.
pub(super) const DIFFERENCES_MAX: usize = 1_000;
/// Most captured attempts looked for in the books with one page. More than a page of charges can
/// only be there if the books have lost some.
const ATTEMPTS_MAX: i64 = 5_000;
/// Why an orphan goes back.
const ORPHAN: &str = "orphan";

/// The ids that a page speaks for: from behind `after` up to `last`, or to the end.
#[derive(Clone, Copy)]
pub(super) struct Range<'a> {
    pub(super) after: &'a str,
    pub(super) last: Option<&'a str>,
}

/// What a page comes to, before it is written.
#[derive(Default)]
struct Outcome {
    tally: Tally,
    found: Vec<Found>,
    differences: Vec<Difference>,
    aftermath: Aftermath,
}

impl Reconciler {
    /// Returns how many more differences the report has room for.
    pub(super) async fn compare(
        &self,
        report: i64,
        range: Range<'_>,
        charges: &[Charge],
        room: usize,
    ) -> anyhow::Result<usize> {
        let mut connection = database::acquire(&self.pool)
            .await
            .context("beginning a page")?;
        let mut tx = connection.begin().await.context("beginning a page")?;
        let mut outcome = Outcome::default();
        let ours = Ours::read(&mut tx, charges).await?;
        for charge in charges {
            self.weigh(&mut tx, &ours, charge, &mut outcome).await?;
        }
        let captured =
            reconciliations::captured(&mut tx, range.after, range.last, self.grace, ATTEMPTS_MAX)
                .await
                .context("reading captured attempts")?;
        outcome.tally.attempts = captured.len() as i64;
        let missing = books::not_in_books(charges, &captured);
        outcome.differences.extend(missing);
        outcome.settle(&mut tx).await?;
        outcome.tally.refunds_opened = outcome.aftermath.write(&mut tx).await? as i64;
        outcome.tally.charges = charges.len() as i64;
        outcome.tally.differing = outcome.differences.len() as i64;
        outcome.differences.truncate(room);
        outcome.tally.differences = json!(outcome.differences);
        reconciliations::add(&mut tx, report, &outcome.tally)
            .await
            .context("writing the report")?;
        tx.commit().await.context("committing a page")?;
        self.wake.wake();
        self.refund_due.notify_one();
        outcome
            .aftermath
            .direct()
            .for_each(|id| self.waiting.settled(id));
        Ok(room - outcome.differences.len())
    }

    async fn weigh(
        &self,
        tx: &mut PgConnection,
        ours: &Ours,
        charge: &Charge,
        outcome: &mut Outcome,
    ) -> anyhow::Result<()> {
        let age = (Utc::now() - charge.created_at).to_std();
        let age = age.unwrap_or_default();
        if age < self.grace {
            outcome.tally.young += 1;
            return Ok(());
        }
        let (attempt, refund) = (ours.attempt(charge), ours.refunds.get(&charge.id));
        match (books::judge(charge, attempt), attempt) {
            (Finding::Orphan(why), _) => outcome.give_back(charge, why, refund.is_some()),
            (Finding::Unheard, _) if age < self.unheard_grace => {
                let detail = "no attempt has its key, so far".to_owned();
                let difference = charge.differs("unheard_charge", detail, "waited for");
                outcome.differences.push(difference);
            }
            (Finding::Unheard, _) => {
                outcome.give_back(charge, "no attempt has its key", refund.is_some());
            }
            (Finding::Foreign, _) => {
                let detail = format!("made under {}", charge.idempotency_key);
                let difference = charge.differs("foreign_charge", detail, "flagged");
                outcome.differences.push(difference);
            }
            (Finding::Settle, Some(attempt)) => {
                outcome.find(charge, attempt);
                outcome
                    .differences
                    .extend(books::amount_differs(charge, attempt));
            }
            (_, Some(attempt)) => outcome
                .differences
                .extend(books::amount_differs(charge, attempt)),
            (_, None) => {}
        }
        outcome
            .differences
            .extend(books::refund_differences(charge, refund));
        if let Some(refund_id) = books::refund_to_settle(charge, refund) {
            let settled = refunds::settle_found(tx, &charge.id, refund_id)
                .await
                .context("settling a refund")?;
            if let Some(settled) = settled {
                outcome.tally.refunds_settled += 1;
                let detail = format!("refund {refund_id} was not recorded yet");
                let difference = charge.differs("refund_unknown", detail, "settled");
                outcome.differences.push(difference);
                outcome.aftermath.add_refunded(settled, None)?;
            }
        }
        Ok(())
    }
}

impl Outcome {
    fn give_back(&mut self, charge: &Charge, why: &str, known: bool) {
        // Under way since an earlier sweep, or done.
        if known {
            return;
        }
        let detail = format!("{} {}: {why}", charge.amount, charge.currency);
        self.differences
            .push(charge.differs("orphan_charge", detail, "refund opened"));
        let named = parse_charge_key(&charge.idempotency_key);
        let order_id = charge.reference.parse().ok();
        self.aftermath.add_refund(NewRefund {
            charge_id: charge.id.clone(),
            key: orphan_refund_key(&charge.id),
            order_id: order_id.or(named.map(|(id, _)| id)).unwrap_or(Uuid::nil()),
            attempt: named.map_or(0, |(_, attempt)| attempt),
            amount: charge.amount,
            currency: charge.currency.clone(),
            reason: ORPHAN.to_owned(),
            correlation_id: format!("reconciler-{}", charge.id),
            traceparent: None,
        });
    }

    fn find(&mut self, charge: &Charge, attempt: &Attempt) {
        let mut found = self.found.iter();
        if found.any(|it| (it.order_id, it.attempt) == (attempt.order_id, attempt.attempt)) {
            // A second charge under one key: an orphan, once the first has settled the attempt.
            return;
        }
        self.found.push(Found {
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

    async fn settle(&mut self, tx: &mut PgConnection) -> anyhow::Result<()> {
        if self.found.is_empty() {
            return Ok(());
        }
        let settled = payments::capture_found(tx, &self.found)
            .await
            .context("settling attempts")?;
        self.tally.settled = settled.len() as i64;
        for settled in settled {
            let mut found = self.found.iter();
            let charge =
                found.find(|it| (it.order_id, it.attempt) == (settled.order_id, settled.attempt));
            if let Some(Found { charge_id, .. }) = charge {
                let charge_id = charge_id.clone();
                let answer = Answer::Captured { charge_id };
                self.aftermath.add_settled(&settled, &answer, None)?;
            }
        }
        Ok(())
    }
}

/// Our side of a page.
struct Ours {
    attempts: HashMap<(Uuid, i32), Attempt>,
    refunds: HashMap<String, OurRefund>,
}

impl Ours {
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
