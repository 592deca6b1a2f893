//! A step reads about what it returns: with plans made while the table was empty, with any
//! statistics, backlog or history.

use chrono::{DateTime, Utc};
use receipt::domain::MailType;
use receipt::domain::resolution::Action;
use receipt::store::operator::{self, Decision, Resolved};
use service_kit::database;
use sqlx::{Connection as _, PgConnection};
use testkit::postgres::pages::PageCount;
use uuid::Uuid;

use crate::harness::{Harness, LONG, eventually};

/// For each mail: its row, the row's new version and an entry in each index, a few pages deep.
const PAGES_PER_MAIL_MAX: i64 = 40;
/// A step that finds nothing.
const PAGES_IDLE_MAX: i64 = 20;

/// A database whose connections are set up as in production and keep their first plans.
async fn create() -> Harness {
    let mut harness = Harness::create().await;
    let keep = "do $$ begin
        execute format('alter database %I set plan_cache_mode = force_generic_plan', current_database());
    end $$";
    harness.execute(keep).await;
    let settings = database::Settings {
        database_url: harness.url.clone(),
        // One connection: it keeps its plans.
        database_connections_max: 1,
        database_acquire_timeout_ms: 10_000,
        database_statement_timeout_ms: 60_000,
    };
    harness.pool = database::connect_lazy(&settings, "receipt-test").unwrap();
    harness
}

/// Logs this many mails at once, due now.
async fn fill(harness: &Harness, count: i32) {
    let insert = "insert into receipts (event_id, mail_type, order_id, attempt, recipient, amount,
                                        currency, lines, correlation_id, status)
                  select id, 'receipt', id, 1, 'a@b.example', 100, 'USD', '[]', 'c', 'pending'
                  from (select gen_random_uuid() as id from generate_series(1, $1)) as new";
    let insert = sqlx::query(insert).bind(count);
    insert.execute(&harness.pool).await.unwrap();
}

/// Sends one batch; returns the number of mails, and the pages that its lease and its record read.
async fn send(harness: &Harness, pages: &mut PageCount) -> (i64, i64) {
    let mut stepper = harness.stepper(LONG);
    pages.restart().await.unwrap();
    let tried = stepper.send().await;
    assert_eq!(harness.record(&tried).await, tried.len());
    let count = pages.pages_of("update receipts").await.unwrap();
    (tried.len() as i64, count)
}

#[tokio::test]
async fn backlog_costs_nothing_whatever_the_statistics() {
    for statistics in ["", "analyze receipts"] {
        let harness = create().await;
        harness.execute(statistics).await;
        // Plans are made here, on the empty table.
        assert_eq!(harness.try_once().await, 0);
        harness.log_new().await;
        assert_eq!(harness.try_once().await, 1);
        fill(&harness, 100_000).await;
        let mut pages = PageCount::begin(&harness.url).await.unwrap();
        for _ in 0..3 {
            let (mails, count) = send(&harness, &mut pages).await;
            assert_eq!(mails, 16);
            assert!(
                count < mails * PAGES_PER_MAIL_MAX,
                "{statistics:?}: {count}"
            );
        }
    }
}

/// Marks every mail as sent. The entries in the index of pending mails stay.
const SEND_ALL: &str = "update receipts set status = 'sent', sent_at = now(), lease_token = null where status = 'pending'";
const ROUND: i32 = 50_000;
/// 200,000 mails in all.
const ROUNDS: usize = 4;

/// Waits until everything that was written before is older than the margin of the floor.
async fn outlast_the_margin(harness: &Harness) {
    let clock = "select clock_timestamp()";
    let clock = sqlx::query_scalar::<_, DateTime<Utc>>(clock);
    let written = clock.fetch_one(&harness.pool).await.unwrap();
    let is_past = "select clock_timestamp() > $1 + interval '1.1 seconds'";
    eventually("the margin has passed", async || {
        let is_past = sqlx::query_scalar(is_past).bind(written);
        is_past.fetch_one(&harness.pool).await.unwrap()
    })
    .await;
}

#[tokio::test]
async fn mails_sent_under_an_old_snapshot_are_not_read_again() {
    let harness = create().await;
    let mut snapshot = PgConnection::connect(&harness.url).await.unwrap();
    sqlx::raw_sql("begin isolation level repeatable read; select count(*) from receipts")
        .execute(&mut snapshot)
        .await
        .unwrap();
    // With its own connection: those of the service may only use indexes.
    let mut others = PgConnection::connect(&harness.url).await.unwrap();
    let mut pages = PageCount::begin(&harness.url).await.unwrap();
    let stepper = harness.stepper(LONG);
    for round in 1..=ROUNDS {
        fill(&harness, ROUND).await;
        sqlx::raw_sql(SEND_ALL).execute(&mut others).await.unwrap();
        outlast_the_margin(&harness).await;
        // This step moves the floor.
        assert_eq!(stepper.lease().await, 0);
        pages.restart().await.unwrap();
        for _ in 0..20 {
            assert_eq!(stepper.lease().await, 0);
        }
        let count = pages.pages_of("update receipts").await.unwrap();
        assert!(count < 20 * PAGES_IDLE_MAX, "round {round}: {count}");

        // A mail that is logged now is above the floor.
        harness.log_new().await;
        pages.restart().await.unwrap();
        assert_eq!(stepper.lease().await, 1);
        let count = pages.pages_of("update receipts").await.unwrap();
        assert!(count < PAGES_PER_MAIL_MAX, "round {round}: {count}");
    }
    // The snapshot kept every entry: a sender that knows no floor reads them all.
    pages.restart().await.unwrap();
    assert_eq!(harness.stepper(LONG).lease().await, 0);
    let all: Vec<_> = pages.statements().await.unwrap();
    let count: i64 = all.iter().map(|it| it.pages).sum();
    assert!(count > 100 * PAGES_IDLE_MAX, "{count}");
    snapshot.close().await.unwrap();
}

const LATE_MAIL: &str = "
    insert into receipts (event_id, mail_type, order_id, attempt, recipient, amount, currency, lines,
                          correlation_id, status)
    values (gen_random_uuid(), 'receipt', gen_random_uuid(), 1, 'a@b.example', 100, 'USD', '[]', 'c',
            'pending')";

/// A transaction on a connection of its own that is open for a while.
async fn open_transaction(harness: &Harness) -> PgConnection {
    let mut transaction = PgConnection::connect(&harness.url).await.unwrap();
    let begin = sqlx::raw_sql("begin").execute(&mut transaction);
    begin.await.unwrap();
    transaction
}

/// Two mails commit after the floor could have passed them: one was written early, the transaction of the
/// other began early. Both are sent.
#[tokio::test]
async fn mail_that_commits_late_is_not_below_the_floor() {
    let harness = Harness::create().await;
    let stepper = harness.stepper(LONG);
    let mut written_early = open_transaction(&harness).await;
    let mut begun_early = open_transaction(&harness).await;
    let early = sqlx::raw_sql(LATE_MAIL).execute(&mut written_early);
    early.await.unwrap();
    // The floor moves every second and stays a second behind.
    let age_s = "select extract(epoch from clock_timestamp() - now())::float8";
    eventually("the floor has moved several times", async || {
        assert_eq!(stepper.lease().await, 0, "not committed yet");
        let age_s = sqlx::query_scalar::<_, f64>(age_s).fetch_one(&mut begun_early);
        age_s.await.unwrap() > 4.0
    })
    .await;
    let late = sqlx::raw_sql(LATE_MAIL).execute(&mut begun_early);
    late.await.unwrap();
    assert_eq!(stepper.lease().await, 0, "not committed yet");
    for mut transaction in [written_early, begun_early] {
        let commit = sqlx::raw_sql("commit").execute(&mut transaction);
        commit.await.unwrap();
    }
    assert_eq!(stepper.lease().await, 2);
}

/// The log has no index over the events of all mails. A decision finds its mail by the status or by an earlier decision.
#[tokio::test]
async fn decision_about_a_mail_reads_a_few_pages() {
    let harness = create().await;
    let (mail, tries) = (Uuid::now_v7(), 2);
    let decision = Decision {
        event_id: mail,
        mail_type: MailType::Receipt,
        tries,
        action: Action::Settle,
        reason: "test".to_owned(),
    };
    let decide = async || {
        let mut connection = harness.pool.acquire().await.unwrap();
        operator::decide(&mut connection, &decision).await.unwrap()
    };
    // The plan is made here, on the empty table.
    assert!(matches!(decide().await, Resolved::NotFound));
    fill(&harness, 20_000).await;
    harness.execute(SEND_ALL).await;
    let mut pages = PageCount::begin(&harness.url).await.unwrap();
    assert!(matches!(decide().await, Resolved::NotFound));
    let in_doubt = "insert into receipts (event_id, mail_type, order_id, attempt, recipient, lines,
                                          correlation_id, status, tries, tries_in_doubt, last_error)
                    values ($1, 'receipt', $1, 1, 'a@b.example', '[]', 'c', 'unknown', $2, 2, 'lost')";
    let in_doubt = sqlx::query(in_doubt).bind(mail).bind(tries);
    in_doubt.execute(&harness.pool).await.unwrap();
    assert!(matches!(decide().await, Resolved::Done(_)));
    assert!(matches!(decide().await, Resolved::Repeated(_)));
    let read = pages.pages_of("from receipts").await.unwrap();
    assert!(read < 4 * PAGES_PER_MAIL_MAX, "{read}");
}
