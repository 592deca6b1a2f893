//! A database that is restored from a backup. The tests run the commands of docs/restore.md.

use anyhow::ensure;
use endpoints::Service;
use endpoints::client::{new_key, order_body};
use endpoints::provider;
use invariants::{CHARGE_UNEXPLAINED, MAIL_WAITS, ORDER_LOST};
use testkit::system::SystemOptions;
use uuid::Uuid;

use crate::cancels::wait_for_decision;
use crate::early_start::expect_no_decisions;
use crate::harness::{Harness, SETTLE_TIMEOUT, options};
use crate::payer::{Payer, charge, payment_id};
use crate::runbook::Runbook;

const DOCUMENT: &str = "docs/restore.md";
const OPEN_CHARGES: &str = "select count(*) from unexplained_charges where status = 'open'";

fn settings() -> SystemOptions {
    let mut options = options();
    for (name, value) in [
        ("RECONCILE_GRACE_SECONDS", "0"),
        ("RECONCILE_INTERVAL_SECONDS", "0"),
    ] {
        let setting = (name.to_owned(), value.to_owned());
        options.env.payment.push(setting);
    }
    options
}

/// Backs the database up.
async fn back_up(harness: &Harness, service: Service) -> anyhow::Result<Runbook<'_>> {
    let section = match service {
        Service::Order => "Order",
        Service::Payment => "Payment",
        Service::Fulfilment => "Fulfilment",
        Service::Receipt => "Receipt",
        Service::Psp => anyhow::bail!("the provider is not ours to restore"),
    };
    let mut runbook = Runbook::read(harness, DOCUMENT, "Backups", service)?;
    runbook.run("pg_dump").await?;
    runbook.then(DOCUMENT, section)
}

/// What happens after the backup: orders that ship, one that is refunded, one that is declined, and one
/// that is cancelled before it is charged.
struct Lost {
    shipped: Vec<Uuid>,
    refunded: Uuid,
    declined: Uuid,
    cancelled: Uuid,
}

async fn make_history(harness: &Harness) -> anyhow::Result<Lost> {
    let shipped = harness.place_many(5).await?;
    harness.expect_shipped_once(&shipped).await?;
    let refunded = harness.place_out_of_stock().await?;
    harness.expect_end(refunded, "refunded").await?;
    let decline = order_body(2).replace("pm_card_ok", "pm_card_declined");
    let declined = harness.place_with(&new_key("declined"), &decline).await?;
    harness.expect_end(declined, "declined").await?;
    // Payment is down, so the cancellation request comes first: the order is never charged.
    let payment = Service::Payment.name();
    harness.system.stop_service(payment).await?;
    let cancelled = harness.place().await?;
    ensure!(harness.cancel(cancelled).await? == 204);
    wait_for_decision(harness, cancelled).await?;
    harness.system.start_service(payment).await?;
    harness.expect_end(cancelled, "cancelled").await?;
    Ok(Lost {
        shipped,
        refunded,
        declined,
        cancelled,
    })
}

/// Nothing was charged, refunded or decided twice, and nothing changed its end.
async fn expect_unchanged(harness: &Harness, before: &[Uuid], lost: &Lost) -> anyhow::Result<()> {
    let orders = [before, &lost.shipped].concat();
    harness.expect_shipped_once(&orders).await?;
    for order in orders {
        assert_eq!(harness.books(order).await?, (1, 0));
    }
    assert_eq!(harness.books(lost.refunded).await?, (1, 1));
    harness.expect_end(lost.refunded, "refunded").await?;
    assert_eq!(harness.books(lost.declined).await?, (0, 0));
    harness.expect_end(lost.declined, "declined").await?;
    assert_eq!(harness.books(lost.cancelled).await?, (0, 0));
    harness.expect_end(lost.cancelled, "cancelled").await
}

/// The number of mails that the mail server has.
fn mails(harness: &Harness) -> anyhow::Result<usize> {
    let folder = harness.system.endpoints().mails_dir;
    Ok(testkit::smtp_sink::mails(&folder)?.len())
}

async fn for_operator(harness: &Harness, what: &str) -> anyhow::Result<Vec<String>> {
    let all = invariants::for_operator(&harness.databases).await?;
    let of_kind = all.into_iter().filter(|it| it.invariant == what);
    Ok(of_kind.map(|it| it.detail).collect())
}

#[tokio::test]
async fn restored_payment_charges_and_refunds_nothing_again() -> anyhow::Result<()> {
    let harness = Harness::start(settings()).await?;
    let payer = Payer::of(&harness)?;
    let before = harness.place_many(5).await?;
    harness.expect_shipped_once(&before).await?;
    payer.pay(&new_key("known"), &charge(700)).await?;
    let mut runbook = back_up(&harness, Service::Payment).await?;
    let lost = make_history(&harness).await?;
    let direct = payer.pay(&new_key("lost"), &charge(900)).await?;
    let direct = payment_id(&direct)?;
    harness.expect_settled().await?;
    let sent = mails(&harness)?;

    runbook.run("docker compose stop").await?;
    runbook.run("pg_restore").await?;
    runbook.run("export CHARGE_HOLD_EVENTS_BEFORE").await?;
    runbook.run("docker compose up").await?;
    runbook.run("chargeonce republish --service order").await?;
    // Five and a direct charge before the backup; after it five, and the refunded, the declined and the
    // cancelled order.
    let attempts = "select count(*) from payments";
    harness
        .wait_for_count(Service::Payment, attempts, 14)
        .await?;
    runbook
        .run("chargeonce republish --service fulfilment")
        .await?;
    let refunds = "select count(*) from refunds where status = 'refunded'";
    harness.wait_for_count(Service::Payment, refunds, 1).await?;
    // Only the declined one is neither in the provider's books nor rejected.
    let open = "select count(*) from payments where status in ('pending', 'unknown')";
    harness.wait_for_count(Service::Payment, open, 1).await?;
    runbook.run("unset CHARGE_HOLD_EVENTS_BEFORE").await?;
    runbook.run("docker compose up").await?;
    harness.wait_for_count(Service::Payment, open, 0).await?;
    // The direct charge is flagged: exit code 2.
    let report = runbook.run_to("chargeonce reconcile --all", 2).await?;
    ensure!(report.text.contains("unexplained_charge"), "{report:?}");
    ensure!(report.text.contains("0  refunds opened"), "{report:?}");
    let open = for_operator(&harness, CHARGE_UNEXPLAINED).await?;
    ensure!(open.len() == 1, "{open:?}");
    let listed = runbook.run("chargeonce resolve list").await?;
    ensure!(listed.lines().count() == 1, "{listed}");
    ensure!(listed.contains(&format!("direct:{direct}")), "{listed}");
    let charge_id = listed.split_whitespace().next().unwrap_or_default();
    runbook.set("CHARGE", charge_id);
    runbook.run("chargeonce resolve accept-charge").await?;
    harness
        .wait_for_count(Service::Payment, OPEN_CHARGES, 0)
        .await?;
    let checked = runbook.run("chargeonce check").await?;
    ensure!(checked.contains("every invariant holds"), "{checked}");
    runbook.finish()?;

    expect_unchanged(&harness, &before, &lost).await?;
    assert_eq!(mails(&harness)?, sent, "mails were sent again");
    harness.stop().await
}

#[tokio::test]
async fn restored_fulfilment_keeps_its_decisions() -> anyhow::Result<()> {
    let harness = Harness::start(settings()).await?;
    let before = harness.place_many(5).await?;
    harness.expect_shipped_once(&before).await?;
    let mut runbook = back_up(&harness, Service::Fulfilment).await?;
    let lost = make_history(&harness).await?;
    let sent = mails(&harness)?;
    // Fulfilment is down when more is paid, and when a client wants to cancel what was shipped.
    runbook.run("docker compose stop").await?;
    let late = harness.place_many(3).await?;
    for order in &late {
        harness.wait_for_charge(*order).await?;
    }
    // As if the restored stock could not cover what was shipped.
    runbook.run("pg_restore").await?;
    let drained = "update stock set available = 4, reserved = reserved where sku = 'SKU-99'";
    sqlx::query(drained)
        .execute(&harness.databases.fulfilment)
        .await?;

    expect_no_decisions(&harness, before.len()).await?;
    let recalled = runbook.run("docker compose run --rm fulfilment").await?;
    ensure!(recalled.contains("7 of them were missing"), "{recalled}");
    ensure!(recalled.contains("SKU-99: 6 more units"), "{recalled}");
    let restock = "update stock set available = 1000 where sku = 'SKU-99'";
    sqlx::query(restock)
        .execute(&harness.databases.fulfilment)
        .await?;
    runbook.run("docker compose up").await?;
    runbook.run("chargeonce republish --service order").await?;
    runbook
        .run("chargeonce republish --service payment")
        .await?;
    harness.expect_shipped_once(&late).await?;
    let checked = runbook.run("chargeonce check").await?;
    ensure!(checked.contains("every invariant holds"), "{checked}");
    runbook.finish()?;

    // A shipped order is not rejected later.
    ensure!(harness.cancel(lost.shipped[0]).await? == 409);
    expect_unchanged(&harness, &before, &lost).await?;
    assert_eq!(mails(&harness)?, sent + late.len(), "mails were sent again");
    harness.stop().await
}

/// What order loses: orders that it accepted after the backup.
struct LostOrders {
    posted: Uuid,
    key: String,
    put: Uuid,
    refunded: Uuid,
}

async fn lose_orders(harness: &Harness) -> anyhow::Result<LostOrders> {
    let key = new_key("posted");
    let posted = harness.place_with(&key, &order_body(2)).await?;
    let put = Uuid::new_v4();
    harness.put(put).await?;
    harness.expect_shipped_once(&[posted, put]).await?;
    let refunded = harness.place_out_of_stock().await?;
    harness.expect_end(refunded, "refunded").await?;
    Ok(LostOrders {
        posted,
        key,
        put,
        refunded,
    })
}

/// Places the lost orders again, as the document says.
async fn place_again(
    harness: &Harness,
    runbook: &mut Runbook<'_>,
    lost: &LostOrders,
) -> anyhow::Result<()> {
    runbook.set("ORDER_URL", harness.system.url(Service::Order));
    runbook.set("API_KEY", "demo-key-acme");
    let out_of_stock = order_body(1).replace("SKU-99", "SKU-not-in-stock");
    for (step, (order, content)) in [
        (lost.put, order_body(2)),
        (lost.posted, order_body(2)),
        (lost.refunded, out_of_stock),
    ]
    .into_iter()
    .enumerate()
    {
        if step > 0 {
            runbook.repeat(3);
        }
        runbook.set("ORDER", order);
        runbook.write("order.json", &content)?;
        runbook.run("curl").await?;
        runbook
            .run("chargeonce republish --service payment")
            .await?;
        runbook
            .run("chargeonce republish --service fulfilment")
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn restored_order_lists_what_it_lost() -> anyhow::Result<()> {
    let harness = Harness::start(settings()).await?;
    let before = harness.place_many(3).await?;
    harness.expect_shipped_once(&before).await?;
    let decline = order_body(2).replace("pm_card_ok", "pm_card_declined");
    let declined = harness.place_with(&new_key("again"), &decline).await?;
    let quit = harness.place_with(&new_key("quit"), &decline).await?;
    harness.expect_end(declined, "declined").await?;
    harness.expect_end(quit, "declined").await?;
    let mut runbook = back_up(&harness, Service::Order).await?;

    // After the backup: a declined order is paid, another one is cancelled, and new ones are placed.
    let paying = new_key("again");
    let paid = harness.client.pay_again(declined, &paying, "pm_card_ok");
    assert_eq!(paid.await?.status, 201);
    assert_eq!(harness.cancel(quit).await?, 204);
    harness.expect_shipped_once(&[declined]).await?;
    let lost = lose_orders(&harness).await?;
    let sent = mails(&harness)?;

    runbook.run("docker compose stop").await?;
    runbook.run("pg_restore").await?;
    runbook.run("docker compose up").await?;
    runbook
        .run("chargeonce republish --service payment")
        .await?;
    runbook
        .run("chargeonce republish --service fulfilment")
        .await?;
    // The orders of the backup get the end that they had. Only the client knows that it cancelled one.
    let shipped = harness
        .client
        .wait_for_status(declined, "shipped", SETTLE_TIMEOUT);
    shipped.await?;
    assert_eq!(harness.cancel(quit).await?, 204);
    harness.expect_settled_but(ORDER_LOST).await?;
    let checked = runbook.run_to("chargeonce check", 2).await?;
    for order in [lost.posted, lost.put, lost.refunded] {
        let listed = format!("{ORDER_LOST}: {order}: attempt 1 captured");
        ensure!(checked.text.contains(&listed), "{checked:?}");
    }
    ensure!(for_operator(&harness, ORDER_LOST).await?.len() == 3);
    ensure!(
        checked.text.contains("every invariant holds"),
        "{checked:?}"
    );
    assert_eq!(harness.cancel(lost.put).await?, 404);

    place_again(&harness, &mut runbook, &lost).await?;
    runbook.finish()?;
    let shipped = [declined, lost.put, lost.posted];
    expect_end_of_all(&harness, &shipped, lost.refunded).await?;
    assert_eq!(mails(&harness)?, sent, "mails were sent again");
    // A POST with its old key places, and charges, another order.
    let again = harness.place_with(&lost.key, &order_body(2)).await?;
    ensure!(again != lost.posted, "the key was not lost");
    harness.expect_shipped_once(&[again]).await?;
    harness.stop().await
}

/// Every order ended as before, and was charged and refunded as before.
async fn expect_end_of_all(
    harness: &Harness,
    shipped: &[Uuid],
    refunded: Uuid,
) -> anyhow::Result<()> {
    harness.expect_shipped_once(shipped).await?;
    harness.expect_end(refunded, "refunded").await?;
    assert_eq!(harness.books(refunded).await?, (1, 1));
    let counts = provider::charges_per_order(&harness.databases.psp, shipped).await?;
    ensure!(counts.values().all(|count| *count == 1), "{counts:?}");
    Ok(())
}

#[tokio::test]
async fn restored_receipt_sends_nothing_without_a_release() -> anyhow::Result<()> {
    let harness = Harness::start(settings()).await?;
    let before = harness.place_many(3).await?;
    harness.expect_shipped_once(&before).await?;
    let mut runbook = back_up(&harness, Service::Receipt).await?;
    // As if one mail had been due at the time of the backup.
    let lost = make_history(&harness).await?;
    let sent = mails(&harness)?;

    runbook.run("docker compose stop").await?;
    runbook.run("pg_restore").await?;
    let pending = "update receipts set status = 'pending', sent_at = null, tries = 0,
                                       tries_in_doubt = 0, due_at = now() where order_id = $1";
    let pending = sqlx::query(pending).bind(before[0]);
    pending.execute(&harness.databases.receipt).await?;
    runbook.run("export MAIL_HOLD_EVENTS_BEFORE").await?;
    runbook.run("docker compose up").await?;
    runbook
        .run("chargeonce republish --service payment")
        .await?;
    runbook.run("chargeonce republish --service order").await?;
    // Five receipts, a receipt and a refund, a decline, a cancellation, and the one that was due.
    let held = "select count(*) from receipts where status = 'held'";
    harness.wait_for_count(Service::Receipt, held, 10).await?;
    assert_eq!(for_operator(&harness, MAIL_WAITS).await?, ["10 held"]);
    let listed = runbook.run("chargeonce mails list").await?;
    ensure!(listed.lines().count() == 10, "{listed}");
    // New mails are sent.
    let new = harness.place().await?;
    harness.expect_shipped_once(&[new]).await?;
    harness.expect_mails(&[new], 1..=1)?;
    assert_eq!(mails(&harness)?, sent + 1, "mails were sent again");

    runbook.set("ORDER", lost.shipped[0]);
    runbook.run("chargeonce mails release").await?;
    let settled = runbook.run("chargeonce mails settle").await?;
    ensure!(settled.contains("9 mails settled"), "{settled}");
    let checked = runbook.run("chargeonce check").await?;
    ensure!(checked.contains("every invariant holds"), "{checked}");
    runbook.finish()?;
    harness.expect_mails(&lost.shipped[..1], 2..=2)?;
    harness.expect_mails(&lost.shipped[1..], 1..=1)?;
    assert_eq!(mails(&harness)?, sent + 2);
    expect_unchanged(&harness, &before, &lost).await?;
    harness.stop().await
}
