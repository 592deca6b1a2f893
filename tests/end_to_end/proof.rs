//! The incremental checker agrees with the full one.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use endpoints::client::{new_key, order_body};
use invariants::{Databases, Proof, ProofState, Verdict};
use uuid::Uuid;

use crate::harness::{Harness, SETTLE_TIMEOUT, options};

/// Steps until everything was read and the condition holds.
async fn step_until(
    proof: &mut Proof,
    holds: impl Fn(&ProofState) -> bool,
) -> anyhow::Result<ProofState> {
    let steps = async {
        loop {
            let state = proof.step().await?;
            if state.loaded && holds(&state) {
                return anyhow::Ok(state);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let steps = tokio::time::timeout(SETTLE_TIMEOUT, steps);
    steps.await.context("the proof never held")?
}

#[tokio::test]
async fn proof_agrees_with_the_full_checker() -> anyhow::Result<()> {
    let harness = Harness::start(options()).await?;
    let mut proof = Proof::new(Databases::connect(&harness.system.endpoints()).await?);
    let state = step_until(&mut proof, |_| true).await?;
    ensure!(
        state.accepted == 0 && state.verdict == Verdict::Holds,
        "{state:?}"
    );

    let shipped = harness.place_many(8).await?;
    let declined = order_body(2).replace("pm_card_ok", "pm_card_declined");
    let declined = harness.place_with(&new_key("declined"), &declined).await?;
    let refunded = harness.place_out_of_stock().await?;
    // While orders move, nothing may look like a violation.
    let is_done = |state: &ProofState| state.accepted == 10 && state.not_charged_yet == 0;
    let moving = step_until(&mut proof, |state| {
        assert_eq!(state.verdict, Verdict::Holds, "{state:#?}");
        is_done(state)
    });
    moving.await?;
    for (order, status) in [
        (shipped[0], "shipped"),
        (declined, "declined"),
        (refunded, "refunded"),
    ] {
        harness.expect_end(order, status).await?;
    }
    let settled = |state: &ProofState| is_done(state) && state.money.refunded == 2_500;
    let state = step_until(&mut proof, settled).await?;
    ensure!(
        (state.charged_once, state.charged_more) == (9, 0),
        "{state:?}"
    );
    ensure!(state.ended_uncharged == 1, "{state:?}");
    ensure!(
        (state.money.due, state.money.difference) == (8 * 5_000, 0),
        "{state:?}"
    );

    let second = add_second_charge(&harness, shipped[0]).await?;
    let state = step_until(&mut proof, |state| state.verdict == Verdict::Violated).await?;
    ensure!(
        state.problems == invariants::always(&harness.databases).await?,
        "{state:#?}"
    );
    ensure!(
        state.problems[0].order_id == Some(shipped[0].to_string()),
        "{state:#?}"
    );
    sqlx::query("delete from charges where id = $1")
        .bind(second)
        .execute(&harness.databases.psp)
        .await?;
    step_until(&mut proof, |state| state.verdict == Verdict::Holds).await?;
    harness.expect_settled().await?;
    harness.stop().await
}

/// Straight into the provider's books, as only a defect would.
async fn add_second_charge(harness: &Harness, order: Uuid) -> anyhow::Result<Uuid> {
    let id = Uuid::now_v7();
    sqlx::query(
        "insert into charges (id, idempotency_key, reference, amount, currency, payment_method,
                              status, created_at)
         select $1, 'pay:again', reference, amount, currency, payment_method, status, now()
         from charges where reference = $2",
    )
    .bind(id)
    .bind(order.to_string())
    .execute(&harness.databases.psp)
    .await?;
    Ok(id)
}
