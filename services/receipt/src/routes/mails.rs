//! Operator routes for mails that wait for an operator: `GET /admin/mails`, `POST /admin/mails/release`,
//! `POST /admin/mails/settle` and `POST /admin/mails/resolve`.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use operators::{Operator, audit};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use service_kit::body::JsonBody;
use service_kit::database::{self, STORE_TIMEOUT};
use sqlx::Connection as _;
use uuid::Uuid;

use crate::domain::{MailType, Status};
use crate::routes::{Error, Services};
use crate::store::operator::{self, Decision, HoldEnd, LoggedMail, Resolved};

const PAGE_ROWS_DEFAULT: u32 = 100;
/// Largest page; a larger limit is reduced to it.
const PAGE_ROWS_MAX: u32 = 1_000;
/// Held mails that one commit changes.
const RELEASE_BATCH_MAX: i64 = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Filter {
    status: Option<String>,
    order_id: Option<Uuid>,
    /// `event_id:mail_type` of the last mail of the page before.
    after: Option<String>,
    limit: Option<u32>,
}

#[derive(Serialize)]
pub(super) struct Page {
    data: Vec<LoggedMail>,
    /// The next `after`; absent on the last page.
    next: Option<String>,
}

/// Mails of one status, or of one order.
pub(super) async fn list(
    State(services): State<Services>,
    filter: Result<Query<Filter>, QueryRejection>,
) -> Result<Json<Page>, Error> {
    const USAGE: &str =
        "Use status=held, failed or unknown, or order_id; and after and limit for pages.";
    let Query(filter) = filter.map_err(|_| Error::Query(USAGE))?;
    let limit = filter.limit.unwrap_or(PAGE_ROWS_DEFAULT);
    let limit = limit.clamp(1, PAGE_ROWS_MAX);
    // One row more than requested shows whether a next page exists.
    let rows_max = i64::from(limit) + 1;
    let after = filter.after.as_deref().unwrap_or_default();
    let after = read_position(after).ok_or(Error::Query(USAGE))?;
    let status = filter.status.as_deref().map(waiting_status);
    let rows = database::query_with_timeout(STORE_TIMEOUT, async {
        let mut connection = database::acquire(&services.pool).await?;
        match (status, filter.order_id) {
            (Some(Some(status)), None) => {
                let page = operator::page(&mut connection, status, after, rows_max);
                page.await.map(Some)
            }
            (None, Some(id)) => operator::of_order(&mut connection, id, rows_max)
                .await
                .map(Some),
            _ => Ok(None),
        }
    });
    let mut data = rows.await?.ok_or(Error::Query(USAGE))?;
    let has_more = data.len() > limit as usize;
    data.truncate(limit as usize);
    let last = data.last().filter(|_| has_more && status.is_some());
    let next = last.map(|mail| format!("{}:{}", mail.event_id, mail.mail_type));
    Ok(Json(Page { data, next }))
}

fn read_position(after: &str) -> Option<(Uuid, &str)> {
    match after.split_once(':') {
        Some((event_id, mail_type)) => Some((event_id.parse().ok()?, mail_type)),
        None => after.is_empty().then_some((Uuid::nil(), "")),
    }
}

fn waiting_status(name: &str) -> Option<Status> {
    let status: Status = name.parse().ok()?;
    status.waits_for_operator().then_some(status)
}

/// Either `order_id`, or `all`, which must be true: an empty body must not send everything.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HeldMails {
    order_id: Option<Uuid>,
    #[serde(default)]
    all: bool,
}

#[derive(Serialize)]
pub(super) struct Released {
    released: u64,
}

/// Lets held mails be sent. A repeat releases nothing more.
pub(super) async fn release(
    State(services): State<Services>,
    operator: Operator,
    JsonBody(request): JsonBody<HeldMails>,
) -> Result<Json<Released>, Error> {
    let released = end_hold(&services, &operator, HoldEnd::Release, &request).await?;
    services.due.notify_one();
    Ok(Json(Released { released }))
}

#[derive(Serialize)]
pub(super) struct Settled {
    settled: u64,
}

/// Counts held mails as sent: before a restore, the customers got them. A repeat settles nothing more.
pub(super) async fn settle(
    State(services): State<Services>,
    operator: Operator,
    JsonBody(request): JsonBody<HeldMails>,
) -> Result<Json<Settled>, Error> {
    let settled = end_hold(&services, &operator, HoldEnd::Settle, &request).await?;
    Ok(Json(Settled { settled }))
}

async fn end_hold(
    services: &Services,
    operator: &Operator,
    end: HoldEnd,
    request: &HeldMails,
) -> Result<u64, Error> {
    let mails = match (request.order_id, request.all) {
        (Some(id), false) => end_hold_of_order(services, operator, end, id).await?,
        (None, true) => end_hold_of_all(services, operator, end).await?,
        _ => return Err(Error::Release),
    };
    if mails == 0 {
        operator.nothing_changed();
    }
    Ok(mails)
}

/// The action and the details of the audit row.
fn audited(end: HoldEnd, mails: u64) -> (&'static str, Value) {
    match end {
        HoldEnd::Release => ("mails.release", json!({ "released": mails })),
        HoldEnd::Settle => ("mails.settle", json!({ "settled": mails })),
    }
}

async fn end_hold_of_order(
    services: &Services,
    operator: &Operator,
    end: HoldEnd,
    order_id: Uuid,
) -> Result<u64, Error> {
    let release = database::query_with_timeout(STORE_TIMEOUT, async {
        let mut connection = database::acquire(&services.pool).await?;
        let mut tx = connection.begin().await?;
        let released = operator::end_hold_of_order(&mut tx, end, order_id).await?;
        if released > 0 {
            let (action, detail) = audited(end, released);
            let subject = order_id.to_string();
            audit::record(&mut tx, operator, action, &subject, &detail).await?;
        }
        tx.commit().await?;
        Ok(released)
    });
    Ok(release.await?)
}

/// In batches, so that no commit grows with the number of mails. If one fails, a repeat continues.
async fn end_hold_of_all(
    services: &Services,
    operator: &Operator,
    end: HoldEnd,
) -> Result<u64, Error> {
    let mut released = 0;
    loop {
        let batch = database::query_with_timeout(STORE_TIMEOUT, async {
            let mut connection = database::acquire(&services.pool).await?;
            let mut tx = connection.begin().await?;
            let batch = operator::end_hold_of_some(&mut tx, end, RELEASE_BATCH_MAX).await?;
            if batch > 0 {
                let (action, detail) = audited(end, batch);
                audit::record(&mut tx, operator, action, "all", &detail).await?;
            }
            tx.commit().await?;
            Ok(batch)
        });
        let batch = batch.await?;
        released += batch;
        if batch == 0 {
            return Ok(released);
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Resolve {
    event_id: Uuid,
    mail_type: String,
    /// The `tries` of the mail that the operator decided about.
    tries: i32,
    /// `send` or `settle`.
    action: String,
}

/// Sends a mail in doubt again, or settles it as sent.
pub(super) async fn resolve(
    State(services): State<Services>,
    operator: Operator,
    JsonBody(request): JsonBody<Resolve>,
) -> Result<Json<LoggedMail>, Error> {
    let decision = check(request, operator.reason())?;
    let resolved = database::query_with_timeout(STORE_TIMEOUT, async {
        let mut connection = database::acquire(&services.pool).await?;
        let mut tx = connection.begin().await?;
        let resolved = operator::decide(&mut tx, &decision).await?;
        if matches!(resolved, Resolved::Repeated(_)) {
            operator.nothing_changed();
        }
        if let Resolved::Done(mail) = &resolved {
            let subject = format!("{}:{}", mail.event_id, mail.mail_type);
            let detail = json!({ "action": decision.action.as_str(), "tries": decision.tries });
            audit::record(&mut tx, &operator, "mails.resolve", &subject, &detail).await?;
        }
        tx.commit().await?;
        Ok(resolved)
    });
    match resolved.await? {
        Resolved::Done(mail) | Resolved::Repeated(mail) => {
            services.due.notify_one();
            Ok(Json(mail))
        }
        Resolved::Conflict(mail) => Err(Error::NotInDoubt {
            status: mail.status,
            tries: mail.tries,
        }),
        Resolved::NotFound => Err(Error::NoSuchMail),
    }
}

fn check(request: Resolve, reason: &str) -> Result<Decision, Error> {
    Ok(Decision {
        event_id: request.event_id,
        mail_type: request
            .mail_type
            .parse::<MailType>()
            .map_err(|_| Error::NoSuchMail)?,
        tries: request.tries,
        action: request
            .action
            .parse()
            .map_err(|_| Error::Resolution("action must be send or settle"))?,
        reason: reason.to_owned(),
    })
}
