//! This service's part of an order's timeline.

use operators::{PartQuery, ReadPart};
use sqlx::PgConnection;
use steps::{Part, ROWS_MAX, Severity, Step};
use uuid::Uuid;

use crate::domain::Status;
use crate::store::timeline::{self as store, MailRow, ResolutionRow};

const TABLE: &str = "receipts";

/// Reads the steps of one order.
#[derive(Clone)]
pub struct Reader {
    pub group: String,
}

impl ReadPart for Reader {
    async fn read(&self, connection: &mut PgConnection, query: &PartQuery) -> sqlx::Result<Part> {
        let mut part = Part::new("receipt", query.order_id);
        let mails = store::mails(connection, query.order_id, ROWS_MAX).await?;
        part.note_limit(TABLE, mails.len());
        let attempt = mails.iter().map(|mail| mail.attempt).max();
        inbox::add_steps(connection, &self.group, attempt.unwrap_or(1), &mut part).await?;
        let events: Vec<Uuid> = mails.iter().map(|mail| mail.event_id).collect();
        let resolutions = store::resolutions(connection, &events, ROWS_MAX).await?;
        part.steps.extend(resolutions.into_iter().map(resolution));
        part.steps.extend(mails.iter().flat_map(steps));
        Ok(part)
    }
}

fn steps(mail: &MailRow) -> Vec<Step> {
    let name = format!("mail ({})", mail.mail_type);
    let is_untouched = mail.tries == 0 && mail.updated_at == mail.created_at;
    let logged = Step::new(mail.created_at, TABLE, format!("{name} logged"))
        .commit(is_untouched.then(|| mail.commit.clone()))
        .fact("event id", mail.event_id)
        .fact("tries", mail.tries);
    let mut steps = vec![logged];
    let released = mail.released_at.map(|at| {
        let step = Step::new(at, TABLE, format!("{name} released by an operator"));
        step.commit((at == mail.updated_at && !mail.leased).then(|| mail.commit.clone()))
    });
    steps.extend(released);
    steps.extend(result(mail, &name));
    steps
}

fn result(mail: &MailRow, name: &str) -> Option<Step> {
    let status: Option<Status> = mail.status.parse().ok();
    let severity = match status {
        Some(Status::Sent) => Severity::Normal,
        Some(Status::Pending) if mail.last_error.is_none() => return None,
        _ => Severity::Fault,
    };
    let at = mail.sent_at.unwrap_or(mail.updated_at);
    let is_final = status != Some(Status::Pending);
    let step = Step::new(at, TABLE, format!("{name} is {}", mail.status));
    let step = step
        .severity(severity)
        .commit((is_final && at == mail.updated_at).then(|| mail.commit.clone()))
        .fact("tries", mail.tries)
        .fact("tries in doubt", mail.tries_in_doubt);
    Some(step.fact_if("error", mail.last_error.as_ref()))
}

/// The rows are never updated.
fn resolution(row: ResolutionRow) -> Step {
    let what = format!("mail ({}) resolved: {}", row.mail_type, row.action);
    Step::new(row.created_at, "mail_resolutions", what)
        .commit(Some(row.commit))
        .fact("reason", row.reason)
        .fact("tries", row.tries)
}
