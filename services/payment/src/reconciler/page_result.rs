//! What the comparison of a page found, and how it is written.

use std::collections::{BTreeMap, HashMap};

use anyhow::Context as _;
use chrono::{DateTime, SecondsFormat, Utc};
use sqlx::PgConnection;

use super::Walk;
use crate::domain::ProviderAnswer;
use crate::domain::books::{self, Attempt, Charge, Difference, OurRefund, Unreadable};
use crate::follow_ups::FollowUps;
use crate::store::payments::{self, FoundCharge};
use crate::store::reconciliations::Tally;
use crate::store::refunds::{self, FoundRefund, NewRefund};
use crate::store::{reconciliation_progress as progress, unexplained};

/// The reason of the refund of a charge that contradicts its attempt.
const ORPHAN: &str = "orphan";

/// The result of a page, before it is written.
#[derive(Default)]
pub(super) struct PageResult<'a> {
    pub(super) tally: Tally,
    pub(super) found: Vec<FoundCharge>,
    /// The answers about the attempts in `found`, by charge.
    pub(super) answers: HashMap<&'a str, ProviderAnswer>,
    /// Refunds in the books that are still open here, with what to report about each.
    pub(super) refunds_found: Vec<(FoundRefund, Difference)>,
    pub(super) unexplained: Vec<(&'a Charge, &'static str)>,
    pub(super) explained: Vec<&'a str>,
    pub(super) differences: Vec<Difference>,
    pub(super) follow_ups: FollowUps,
    pub(super) refunds_left: usize,
    pub(super) capped: bool,
    /// The last charge before the first recent one.
    pub(super) verified_to: Option<&'a str>,
}

impl<'a> PageResult<'a> {
    /// `refunds_left`: how many refunds the run may still open.
    pub(super) fn new(refunds_left: usize) -> Self {
        Self {
            refunds_left,
            ..Self::default()
        }
    }

    pub(super) fn compare_refunds(&mut self, charge: &Charge, refund: Option<&OurRefund>) {
        // The refund of an attempt that this page settles is recorded with it.
        if self.answers.contains_key(&*charge.id) {
            return;
        }
        self.differences
            .extend(books::refund_differences(charge, refund));
        if let (Some(refund_id), Some(refund)) = (books::refund_to_settle(charge, refund), refund) {
            let detail = format!("refund {refund_id} was not recorded yet");
            let difference = charge.differs("refund_unknown", detail, "settled");
            let found = FoundRefund {
                key: refund.key.clone(),
                refund_id: refund_id.to_owned(),
            };
            self.refunds_found.push((found, difference));
        }
    }

    pub(super) fn report_unreadable(&mut self, unreadable: &[Unreadable]) {
        self.differences
            .extend(unreadable.iter().map(|entry| Difference {
                kind: "not_comparable",
                charge_id: entry.id.clone(),
                reference: String::new(),
                detail: entry.reason.clone(),
                action: "flagged",
            }));
    }

    /// Refunds a charge that its attempt does not own, up to the limit of the run.
    pub(super) fn refund_contradiction(&mut self, charge: &Charge, why: &str, known: bool) {
        // An earlier run has opened the refund, or an operator has made it manually.
        if known || charge.refunded_in_full().is_some() {
            return;
        }
        let detail = format!("{} {}: {why}", charge.amount, charge.currency);
        if self.refunds_left == 0 {
            self.capped = true;
            let action = "not refunded: the limit of this run is reached";
            self.differences
                .push(charge.differs("orphan_charge", detail, action));
            return;
        }
        self.refunds_left -= 1;
        self.differences
            .push(charge.differs("orphan_charge", detail, "refund opened"));
        self.follow_ups
            .add_refund(NewRefund::of_orphan(charge, ORPHAN));
    }

    pub(super) fn settle_attempt(&mut self, charge: &'a Charge, attempt: &Attempt) {
        let mut found = self.found.iter();
        if found.any(|it| (it.order_id, it.attempt) == (attempt.order_id, attempt.attempt)) {
            // A second charge under one key: the next run finds that it contradicts the attempt, because
            // the first charge has settled it.
            return;
        }
        self.found.push(FoundCharge {
            order_id: attempt.order_id,
            attempt: attempt.attempt,
            charge_id: charge.id.clone(),
        });
        let charge_id = charge.id.clone();
        let answer = match charge.refunded_in_full() {
            Some(refund_id) => ProviderAnswer::RefundedByHand {
                charge_id,
                refund_id: refund_id.to_owned(),
            },
            None => ProviderAnswer::Captured { charge_id },
        };
        self.answers.insert(&charge.id, answer);
        let detail = format!(
            "attempt {} was {}",
            attempt.attempt,
            attempt.status.as_str()
        );
        self.differences
            .push(charge.differs("outcome_unknown", detail, "settled"));
    }

    pub(super) async fn write_settled(&mut self, tx: &mut PgConnection) -> anyhow::Result<()> {
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
            let answer = charge.and_then(|it| self.answers.get(&*it.charge_id));
            if let Some(answer) = answer {
                self.follow_ups.add_settled(&settled, answer, None)?;
            }
        }
        Ok(())
    }

    pub(super) async fn write_settled_refunds(
        &mut self,
        tx: &mut PgConnection,
    ) -> anyhow::Result<()> {
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

    pub(super) async fn write_unexplained(&mut self, tx: &mut PgConnection) -> anyhow::Result<()> {
        if !self.explained.is_empty() {
            unexplained::explain(tx, &self.explained)
                .await
                .context("explaining charges")?;
        }
        if self.unexplained.is_empty() {
            return Ok(());
        }
        let charges: Vec<&Charge> = self.unexplained.iter().map(|(charge, _)| *charge).collect();
        let seen = unexplained::flag(tx, &charges)
            .await
            .context("flagging charges")?;
        let seen: HashMap<String, DateTime<Utc>> = seen.into_iter().collect();
        for (charge, why) in &self.unexplained {
            let since = seen.get(&charge.id).copied().unwrap_or_else(Utc::now);
            let since = since.to_rfc3339_opts(SecondsFormat::Secs, true);
            let detail = format!(
                "{} {}: {why}, first seen {since}",
                charge.amount, charge.currency
            );
            self.differences
                .push(charge.differs("unexplained_charge", detail, "flagged"));
        }
        Ok(())
    }

    /// Records the position in the commit of the page, so that the next run continues from here. A page that
    /// reached the refund limit is compared again.
    pub(super) async fn write_progress(
        &self,
        tx: &mut PgConnection,
        walk: Walk,
        next: Option<&str>,
    ) -> anyhow::Result<()> {
        match walk {
            _ if self.capped => {}
            Walk::Once => {}
            Walk::Full => progress::set_walk(tx, next)
                .await
                .context("recording the position")?,
            Walk::New => {
                let verified_to = match next {
                    Some(next) if self.tally.recent == 0 => Some(next),
                    _ => self.verified_to,
                };
                if let Some(verified_to) = verified_to {
                    progress::set_verified(tx, verified_to)
                        .await
                        .context("recording the position")?;
                }
            }
        }
        Ok(())
    }
}
