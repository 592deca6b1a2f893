//! How answers are recorded: in batches, one by one after an error, one live attempt per order.

use crate::harness::{Harness, LONG};
use crate::provider::{call_count, mount_captures};

#[tokio::test]
async fn bad_answer_does_not_block_the_others() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let broken = harness.open_new().await;
    // Its event cannot be written.
    harness.execute("update payments set lines = '7'").await;
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(harness.open_new().await);
    }
    let mut stepper = harness.stepper(LONG);
    let answers = stepper.call().await;
    assert_eq!(answers.len(), 4);
    harness.record(&answers).await.unwrap_err();
    drop(answers);

    // The running recorder gets the same batch from its channel.
    harness.pass_time().await;
    assert_eq!(stepper.lease().await, 4);
    stepper.all_answered(4).await;
    harness
        .recorder()
        .run(stepper.into_answers())
        .await
        .unwrap();
    for order in others {
        assert_eq!(harness.payment(order, 1).await.status, "captured");
        assert_eq!(harness.events(order).await.len(), 1);
    }
    assert_eq!(harness.payment(broken, 1).await.status, "unknown");
    assert!(harness.events(broken).await.is_empty());
}

#[tokio::test]
async fn table_rejects_a_second_live_attempt() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let order = harness.open_new().await;
    for status in ["pending", "captured"] {
        assert_eq!(harness.payment(order, 1).await.status, status);
        let error = harness.try_open(order, 2).await.unwrap_err();
        assert!(error.to_string().contains("payments_one_live"), "{error}");
        let answers = harness.stepper(LONG).call().await;
        harness.record(&answers).await.unwrap();
    }
}

#[tokio::test]
async fn batch_of_answers_is_recorded_in_one_commit() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    for _ in 0..50 {
        harness.open_new().await;
    }
    let answers = harness.stepper(LONG).call().await;
    assert_eq!(harness.record(&answers).await.unwrap(), 50);
    let transactions = "select count(distinct xmin::text) from payments";
    assert_eq!(harness.count(transactions).await, 1);
    assert_eq!(harness.count("select count(*) from outbox").await, 50);
}

/// Makes the first updates of attempts fail as the victims of a deadlock do, then as those of a conflict of
/// serializable transactions. The sequence counts them across rollbacks.
const ROLLBACKS: &str = "
    create sequence rollbacks;
    create function roll_back() returns trigger language plpgsql as $$
    begin
        case when new.status <> 'captured' then return new;
             else null;
        end case;
        case nextval('rollbacks')
            when 1, 2 then raise exception 'deadlock' using errcode = '40P01';
            when 3, 4 then raise exception 'conflict' using errcode = '40001';
            else return new;
        end case;
    end $$;
    create trigger roll_back before update on payments for each row execute function roll_back();";

#[tokio::test]
async fn rolled_back_commits_drop_no_answers() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    for _ in 0..5 {
        harness.open_new().await;
    }
    harness.execute(ROLLBACKS).await;
    let stepper = harness.stepper(LONG);
    assert_eq!(stepper.lease().await, 5);
    stepper.all_answered(5).await;
    let answers = stepper.into_answers();
    harness.recorder().run(answers).await.unwrap();
    let captured = "select count(*) from payments where status = 'captured'";
    assert_eq!(harness.count(captured).await, 5);
    assert_eq!(call_count(&harness.psp).await, 5, "each was called once");
}

/// The reconciler has the same order: with different ones, the two could deadlock.
#[tokio::test]
async fn attempts_are_recorded_in_the_order_of_their_keys() {
    // The order of the locks depends on the plan, and the plan on the settings of the connection.
    let harness = Harness::create().await.with_service_options("");
    mount_captures(&harness.psp).await;
    for _ in 0..20 {
        harness.open_new().await;
    }
    let answers = harness.stepper(LONG).call().await;
    harness
        .execute(
            "create table locked (id bigserial, order_id uuid);
             create function note() returns trigger language plpgsql as $$
             begin insert into locked (order_id) values (new.order_id); return new; end $$;
             create trigger note before update on payments
             for each row execute function note();",
        )
        .await;
    harness.record(&answers).await.unwrap();
    let is_sorted =
        "select count(*) from (select order_id < lag(order_id) over (order by id) as back
                     from locked) as pairs where back";
    assert_eq!(harness.count("select count(*) from locked").await, 20);
    assert_eq!(harness.count(is_sorted).await, 0);
}
