//! Payment attempts as events make and end them.

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

/// The intent to charge.
pub struct NewAttempt {
    pub order_id: Uuid,
    pub attempt: i32,
    pub amount: i64,
    pub currency: &'static str,
    pub payment_method: String,
    pub customer_id: String,
    pub lines: Value,
    pub correlation_id: String,
    pub traceparent: Option<String>,
}

/// Stores attempts; one that is there already stays as it is. A second live attempt of one order is
/// refused by the table.
pub async fn open(connection: &mut PgConnection, attempts: &[NewAttempt]) -> sqlx::Result<()> {
    let order_ids: Vec<Uuid> = attempts.iter().map(|new| new.order_id).collect();
    let numbers: Vec<i32> = attempts.iter().map(|new| new.attempt).collect();
    let amounts: Vec<i64> = attempts.iter().map(|new| new.amount).collect();
    let currencies: Vec<&str> = attempts.iter().map(|new| new.currency).collect();
    let methods: Vec<&str> = attempts.iter().map(|new| &*new.payment_method).collect();
    let customers: Vec<&str> = attempts.iter().map(|new| &*new.customer_id).collect();
    let lines: Vec<Value> = attempts.iter().map(|new| new.lines.clone()).collect();
    let correlations: Vec<&str> = attempts.iter().map(|new| &*new.correlation_id).collect();
    let traces: Vec<Option<&str>> = attempts
        .iter()
        .map(|new| new.traceparent.as_deref())
        .collect();
    sqlx::query!(
        "insert into payments (order_id, attempt, amount, currency, payment_method, customer_id,
                               lines, correlation_id, traceparent)
         select * from unnest($1::uuid[], $2::integer[], $3::bigint[], $4::text[], $5::text[],
                              $6::text[], $7::jsonb[], $8::text[], $9::text[])
         on conflict (order_id, attempt) do nothing",
        &order_ids,
        &numbers,
        &amounts,
        &currencies as &[&str],
        &methods as &[&str],
        &customers as &[&str],
        &lines,
        &correlations as &[&str],
        &traces as &[Option<&str>],
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// An attempt that is being refused, locked.
#[derive(Debug)]
pub struct Refused {
    pub order_id: Uuid,
    pub attempt: i32,
    pub status: String,
    pub tries: i32,
    pub refused_before: bool,
    pub amount: i64,
    pub currency: String,
    pub charge_id: Option<String>,
}

/// Takes the place of attempts that are not here yet, so that they can never be opened; returns
/// those. See the migration on why a refusal can come first.
pub async fn forestall(
    connection: &mut PgConnection,
    order_ids: &[Uuid],
    attempts: &[i32],
    reasons: &[&str],
    correlations: &[&str],
) -> sqlx::Result<Vec<(Uuid, i32)>> {
    let rows = sqlx::query!(
        "insert into payments (order_id, attempt, amount, currency, payment_method, lines, status,
                               refused_at, refusal, correlation_id)
         select order_id, attempt, 0, '', '', '[]', 'voided', now(), reason, correlation_id
         from unnest($1::uuid[], $2::integer[], $3::text[], $4::text[])
            as refusal (order_id, attempt, reason, correlation_id)
         on conflict (order_id, attempt) do nothing
         returning order_id, attempt",
        order_ids,
        attempts,
        reasons as &[&str],
        correlations as &[&str],
    )
    .fetch_all(connection)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (row.order_id, row.attempt))
        .collect())
}

/// Locks these attempts, in the order of their keys.
pub async fn lock(
    connection: &mut PgConnection,
    order_ids: &[Uuid],
    attempts: &[i32],
) -> sqlx::Result<Vec<Refused>> {
    sqlx::query_as!(
        Refused,
        r#"select order_id, attempt, status, tries, refused_at is not null as "refused_before!",
                  amount, currency, charge_id
           from payments
           where (order_id, attempt) in (select * from unnest($1::uuid[], $2::integer[]))
             and principal_id is null
           order by order_id, attempt
           for update"#,
        order_ids,
        attempts
    )
    .fetch_all(connection)
    .await
}

/// What a refusal writes on a locked attempt.
#[derive(Clone, Copy, Debug)]
pub struct Note<'a> {
    pub order_id: Uuid,
    pub attempt: i32,
    pub reason: &'a str,
    /// Nobody ever had it in hand: it is closed by this.
    pub void: bool,
}

/// Notes refusals. An attempt in hand is due again when its lease has run out, one that backs off at
/// once.
pub async fn note_refusals(connection: &mut PgConnection, notes: &[Note<'_>]) -> sqlx::Result<()> {
    let order_ids: Vec<Uuid> = notes.iter().map(|note| note.order_id).collect();
    let attempts: Vec<i32> = notes.iter().map(|note| note.attempt).collect();
    let reasons: Vec<&str> = notes.iter().map(|note| note.reason).collect();
    let voids: Vec<bool> = notes.iter().map(|note| note.void).collect();
    sqlx::query!(
        "update payments
         set refused_at = now(), refusal = note.reason, updated_at = now(),
             status = case when note.void then 'voided' else status end,
             due_at = case when lease_token is null then now() else due_at end
         from unnest($1::uuid[], $2::integer[], $3::text[], $4::boolean[])
            as note (order_id, attempt, reason, void)
         where payments.order_id = note.order_id and payments.attempt = note.attempt",
        &order_ids,
        &attempts,
        &reasons as &[&str],
        &voids,
    )
    .execute(connection)
    .await?;
    Ok(())
}
