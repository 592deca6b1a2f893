//! Recorder and reconciler lock rows in one order: attempts by order id and number, then refunds by key.
//! With two orders they could deadlock.

use std::time::Duration;

use leases::Done;
use payment::charger::Answered;
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use tokio::task::JoinHandle;
use uuid::Uuid;
use wiremock::matchers::{method, path};
use wiremock::{Mock, ResponseTemplate};

use crate::harness::{Harness, LONG, eventually};
use crate::provider::{call_count, mount_captures, mount_refunds};
use crate::reconciling::{charge, reconcile};
use crate::rejections::reject;

const ROWS: usize = 5;
/// Rows that no other transaction has locked, in the order in which recorder and reconciler lock rows.
const UNLOCKED_ATTEMPTS: &str = "
    select order_id from payments where order_id = any(array(
        select order_id from payments where status in ('pending', 'unknown')))
    order by order_id for update skip locked";
const UNLOCKED_REFUNDS: &str = "
    select order_id from refunds where status in ('pending', 'unknown')
    order by key for update skip locked";

/// Open attempts and open refunds. The provider has executed both, and its books list them against the order
/// in which they are locked.
struct Open {
    harness: Harness,
    attempts: Vec<Uuid>,
    refunds: Vec<Uuid>,
    /// The provider's answers about all of them, not recorded yet.
    answers: Vec<Done<Answered>>,
}

impl Open {
    async fn create() -> Self {
        let harness = Harness::create().await.with_service_options("");
        mount_captures(&harness.psp).await;
        mount_refunds(&harness.psp).await;
        let mut ids: Vec<Uuid> = (0..2 * ROWS).map(|_| Uuid::new_v4()).collect();
        ids.sort_unstable();
        let (refunds, attempts) = ids.split_at(ROWS);
        for order in refunds {
            harness.open(*order, 1).await;
        }
        assert_eq!(harness.step().await, ROWS);
        for order in refunds {
            reject(&harness, *order, 1).await;
        }
        for order in attempts {
            harness.open(*order, 1).await;
        }
        let answers = harness.stepper(LONG).call().await;
        assert_eq!(answers.len(), 2 * ROWS);
        let open = Self {
            attempts: attempts.to_vec(),
            refunds: refunds.to_vec(),
            harness,
            answers,
        };
        open.mount_books().await;
        open
    }

    /// One page. Its charges are in the order of their ids, which is the reverse of the order ids.
    async fn mount_books(&self) {
        let all = self.attempts.iter().chain(&self.refunds).rev();
        let mut entries: Vec<Value> = Vec::new();
        for order in all {
            let mut entry = charge(Uuid::now_v7(), *order, format!("pay:{order}:1"));
            if self.refunds.contains(order) {
                entry["id"] = json!(format!("ch_{order}"));
                entry["refunds"] = json!([{
                    "id": format!("re_{order}"), "status": "refunded",
                    "idempotency_key": format!("refund:{order}:1"), "amount": 5_000,
                }]);
            }
            entries.push(entry);
        }
        let page = json!({ "data": entries, "next": null });
        let page = ResponseTemplate::new(200).set_body_json(page);
        let ledger = Mock::given(method("GET")).and(path("/v1/ledger"));
        ledger.respond_with(page).mount(&self.harness.psp).await;
    }
}

/// A transaction of the test that holds one row.
async fn lock_row(url: &str, select: &'static str, order: Uuid) -> PgConnection {
    let mut holder = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql("begin").execute(&mut holder).await.unwrap();
    let lock = sqlx::query(select).bind(order).execute(&mut holder);
    assert_eq!(lock.await.unwrap().rows_affected(), 1);
    holder
}

const LOCK_ATTEMPT: &str = "select from payments where order_id = $1 for update";
const LOCK_REFUND: &str = "select from refunds where order_id = $1 for update";

/// Waits until a statement of the service is blocked.
async fn is_blocked(probe: &mut PgConnection) {
    let blocked = "select count(*) from pg_stat_activity
                   where datname = current_database() and wait_event_type = 'Lock'";
    eventually("a statement waits for the row", async || {
        let count = sqlx::query_scalar::<_, i64>(blocked).fetch_one(&mut *probe);
        count.await.unwrap() == 1
    })
    .await;
}

/// The open rows that nothing has locked.
async fn unlocked(probe: &mut PgConnection, select: &'static str) -> Vec<Uuid> {
    let rows = sqlx::query_scalar(select).fetch_all(probe);
    rows.await.unwrap()
}

#[derive(Clone, Copy, Debug)]
enum Writer {
    Recorder,
    Reconciler,
}

/// Starts to write what the provider has done about all rows.
fn write(open: Open, writer: Writer) -> JoinHandle<()> {
    tokio::spawn(async move {
        match writer {
            Writer::Recorder => {
                let recorded = open.harness.record(&open.answers).await;
                assert_eq!(recorded.unwrap(), 2 * ROWS);
            }
            Writer::Reconciler => {
                let report = reconcile(&open.harness).await;
                let settled = report.settled + report.refunds_settled;
                assert_eq!(settled, 2 * ROWS as i64, "{report:?}");
            }
        }
    })
}

#[tokio::test]
async fn recorder_and_reconciler_lock_attempts_in_one_order() {
    for writer in [Writer::Recorder, Writer::Reconciler] {
        let open = Open::create().await;
        let (url, attempts) = (open.harness.url.clone(), open.attempts.clone());
        let refunds = open.refunds.clone();
        let mut probe = PgConnection::connect(&url).await.unwrap();
        let holder = lock_row(&url, LOCK_ATTEMPT, attempts[2]).await;
        let writing = write(open, writer);
        is_blocked(&mut probe).await;
        let free = unlocked(&mut probe, UNLOCKED_ATTEMPTS).await;
        assert_eq!(free, attempts[3..], "{writer:?}: attempts by id");
        let free = unlocked(&mut probe, UNLOCKED_REFUNDS).await;
        assert_eq!(free, refunds, "{writer:?}: no refund before the attempts");
        holder.close().await.unwrap();
        writing.await.unwrap();
    }
}

#[tokio::test]
async fn recorder_and_reconciler_lock_refunds_last_and_by_key() {
    for writer in [Writer::Recorder, Writer::Reconciler] {
        let open = Open::create().await;
        let (url, refunds) = (open.harness.url.clone(), open.refunds.clone());
        let mut probe = PgConnection::connect(&url).await.unwrap();
        let holder = lock_row(&url, LOCK_REFUND, refunds[2]).await;
        let writing = write(open, writer);
        is_blocked(&mut probe).await;
        let free = unlocked(&mut probe, UNLOCKED_REFUNDS).await;
        assert_eq!(free, refunds[3..], "{writer:?}: refunds by key");
        let free = unlocked(&mut probe, UNLOCKED_ATTEMPTS).await;
        assert!(free.is_empty(), "{writer:?}: attempts first, not {free:?}");
        holder.close().await.unwrap();
        writing.await.unwrap();
    }
}

/// A transaction waits for a row that the recorder has, and has one that the recorder wants. Postgres rolls the
/// recorder back, because it has waited for longer. On a busy machine the recorder's limit for locks may come first.
#[tokio::test]
async fn answers_survive_a_real_deadlock() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let mut orders = vec![harness.open_new().await, harness.open_new().await];
    orders.sort_unstable();
    let stepper = harness.stepper(LONG);
    assert_eq!(stepper.lease().await, 2);
    stepper.all_answered(2).await;
    let mut probe = PgConnection::connect(&harness.url).await.unwrap();
    let mut other = lock_row(&harness.url, LOCK_ATTEMPT, orders[1]).await;
    // The other transaction never looks for a deadlock itself.
    let patient = sqlx::raw_sql("set deadlock_timeout = '60s'").execute(&mut other);
    patient.await.unwrap();
    let recording = tokio::spawn(harness.recorder().run(stepper.into_answers()));
    is_blocked(&mut probe).await;
    let crossing = sqlx::query(LOCK_ATTEMPT).bind(orders[0]);
    let crossing = tokio::time::timeout(Duration::from_secs(30), crossing.execute(&mut other));
    crossing.await.unwrap().unwrap();
    // The other transaction has both rows now, so Postgres has rolled the recorder back. It repeats its commit.
    is_blocked(&mut probe).await;
    other.close().await.unwrap();
    recording.await.unwrap().unwrap();
    for order in orders {
        assert_eq!(harness.payment(order, 1).await.status, "captured");
        assert_eq!(harness.event_types(order).await, ["payment.captured"]);
    }
    assert_eq!(call_count(&harness.psp).await, 2, "each was called once");
}
