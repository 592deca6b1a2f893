//! Compares one page of the books, and applies the result in the same transaction.

use std::collections::HashMap;

use anyhow::Context as _;
use chrono::Utc;
use serde_json::json;
use service_kit::database;
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use super::page_result::PageResult;
use super::{Reconciler, Run, Walk};
use crate::charger::Queue;
use crate::domain::books::{self, Attempt, Charge, Finding, OurRefund, Page, Unreadable};
use crate::domain::provider_key::parse_charge_key;
use crate::follow_ups::FollowUps;
use crate::store::reconciliations;

/// Maximum number of differences that a report lists. All of them are counted.
pub(super) const DIFFERENCES_MAX: usize = 1_000;
/// Maximum number of captured attempts that one page looks for in the books. The range of a page
/// has more attempts than charges only if charges are missing from the books.
const ATTEMPTS_MAX: i64 = 5_000;
/// The ids of a page: after `after` and up to `last`, or to the end.
#[derive(Clone, Copy)]
pub(super) struct Range<'a> {
    pub(super) after: &'a str,
    pub(super) last: Option<&'a str>,
}

/// How a page ended.
pub(super) struct Compared {
    /// The run may open no more refunds, and this page would need one.
    pub(super) capped: bool,
    /// The page has charges that are too recent to compare.
    pub(super) recent: bool,
}

impl Reconciler {
    /// Compares a page. If that fails because of one entry, compares each entry alone, and reports those
    /// that cannot be compared: they must not hide the others.
    pub(super) async fn compare_or_split(
        &self,
        run: &mut Run,
        walk: Walk,
        range: Range<'_>,
        page: &Page,
    ) -> anyhow::Result<Compared> {
        let compare = self.compare(run, walk, range, page, &page.charges);
        let error = match database::with_timeout(self.page_wait_max, compare).await {
            Ok(compared) => return Ok(compared),
            Err(error) if database::is_transient_chain(&error) => return Err(error),
            Err(error) => error,
        };
        tracing::warn!(
            error = format!("{error:#}"),
            "page of the books cannot be compared as a whole, comparing its entries one by one"
        );
        let mut compared = Compared {
            capped: false,
            recent: false,
        };
        let mut rest = Page {
            charges: Vec::new(),
            unreadable: page.unreadable.clone(),
            next: page.next.clone(),
        };
        for charge in &page.charges {
            let alone = Page {
                charges: vec![charge.clone()],
                ..Page::default()
            };
            let only = Range {
                after: range.after,
                last: Some(range.after),
            };
            let compare = self.compare(run, Walk::Once, only, &alone, &alone.charges);
            match database::with_timeout(self.page_wait_max, compare).await {
                Ok(one) => {
                    compared.capped |= one.capped;
                    compared.recent |= one.recent;
                }
                Err(error) if database::is_transient_chain(&error) => return Err(error),
                Err(error) => rest.unreadable.push(Unreadable {
                    id: charge.id.clone(),
                    reason: format!("{error:#}"),
                }),
            }
        }
        let report = self.compare(run, walk, range, &rest, &page.charges);
        database::with_timeout(self.page_wait_max, report).await?;
        Ok(compared)
    }

    /// Compares and applies one page. `listed`: the charges that the books have in the range.
    async fn compare(
        &self,
        run: &mut Run,
        walk: Walk,
        range: Range<'_>,
        page: &Page,
        listed: &[Charge],
    ) -> anyhow::Result<Compared> {
        let mut connection = database::acquire(&self.pool)
            .await
            .context("starting a page")?;
        let mut tx = connection.begin().await.context("starting a page")?;
        let mut result = PageResult::new(run.refunds_left);
        let charges = &page.charges;
        let ours = OurRows::read(&mut tx, charges).await?;
        for charge in charges {
            self.compare_charge(&ours, charge, &mut result);
        }
        result.report_unreadable(&page.unreadable);
        let captured =
            reconciliations::captured(&mut tx, range.after, range.last, self.grace, ATTEMPTS_MAX)
                .await
                .context("reading captured attempts")?;
        result.tally.attempts = captured.len() as i64;
        let missing = books::not_in_books(listed, &captured);
        result.differences.extend(missing);
        result.write_settled(&mut tx).await?;
        result.write_settled_refunds(&mut tx).await?;
        result.write_unexplained(&mut tx).await?;
        result.tally.refunds_opened = result.follow_ups.write(&mut tx).await? as i64;
        result.write_progress(&mut tx, walk, range.last).await?;
        result.tally.charges = charges.len() as i64;
        result.tally.differing = result.differences.len() as i64;
        result.differences.truncate(run.differences_left);
        result.tally.differences = json!(result.differences);
        reconciliations::add(&mut tx, run.report, &result.tally)
            .await
            .context("writing the report")?;
        tx.commit().await.context("committing a page")?;
        run.differences_left -= result.differences.len();
        run.refunds_left = result.refunds_left;
        self.wake_after(&result.follow_ups);
        Ok(Compared {
            capped: result.capped,
            recent: result.tally.recent > 0,
        })
    }

    fn wake_after(&self, follow_ups: &FollowUps) {
        self.wake.wake();
        let refunds_due = self.queues.of(Queue::Refunds);
        let principals = follow_ups.refund_principals();
        principals.for_each(|principal| refunds_due.wake(principal));
        follow_ups.direct().for_each(|id| self.waiting.settled(id));
    }

    fn compare_charge<'a>(&self, ours: &OurRows, charge: &'a Charge, result: &mut PageResult<'a>) {
        let age = (Utc::now() - charge.created_at).to_std();
        if age.unwrap_or_default() < self.grace {
            result.tally.recent += 1;
            return;
        }
        if result.tally.recent == 0 {
            result.verified_to = Some(&charge.id);
        }
        let (attempt, refund) = (ours.attempt(charge), ours.refunds.get(&charge.id));
        match (books::compare(charge, attempt), attempt) {
            (Finding::Contradiction(why), _) => {
                result.explained.push(&charge.id);
                result.refund_contradiction(charge, why, refund.is_some());
            }
            // An operator has opened its refund.
            (Finding::Unexplained(_), _) if refund.is_some() => {}
            (Finding::Unexplained(why), _) => result.unexplained.push((charge, why)),
            (Finding::NotCaptured, _) => {
                let detail = format!("{:?} at the provider, captured here", charge.status);
                let difference = charge.differs("charge_not_captured", detail, "flagged");
                result.differences.push(difference);
            }
            (Finding::Settle, Some(attempt)) => {
                result.explained.push(&charge.id);
                result.settle_attempt(charge, attempt);
            }
            (_, Some(attempt)) => {
                result.explained.push(&charge.id);
                let difference = books::amount_differs(charge, attempt);
                result.differences.extend(difference);
            }
            (_, None) => {}
        }
        result.compare_refunds(charge, refund);
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
