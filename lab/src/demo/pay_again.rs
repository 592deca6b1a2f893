//! Chapter: the card is declined, and the customer pays with another one.

use anyhow::ensure;

use super::story::{SHIPPED_WITHIN, Story, say, show_answer};
use endpoints::client::{new_key, order_body};

pub(super) async fn tell(story: &mut Story<'_>) -> anyhow::Result<()> {
    story.chapter("The card is declined, another one pays");
    let body = order_body(1).replace("pm_card_ok", "pm_card_declined");
    let key = new_key("demo-declined");
    let (_, id) = story.place("declined, paid again", &key, &body).await?;
    story
        .client
        .wait_for_status(id, "declined", SHIPPED_WITHIN)
        .await?;
    say("GET /orders/… says: declined. No money has moved, and that attempt's key is used up.");
    let (key, method) = (new_key("demo-again"), "pm_card_ok");
    say(&format!(
        "$ curl -i {}/orders/{id}/payments … -H 'Idempotency-Key: {key}' \\",
        story.client.order_url()
    ));
    say(&format!("    -d '{{\"payment_method\":\"{method}\"}}'"));
    let answer = story.client.pay_again(id, &key, method).await?;
    show_answer(&answer);
    ensure!(answer.status == 201, "paying again was refused");
    let again = story.client.pay_again(id, &key, method).await?;
    ensure!(again.replayed, "sent twice, it was not recognised");
    say("… the same again: a replay. Attempt 2 has a key of its own at the PSP:");
    story
        .client
        .wait_for_status(id, "shipped", SHIPPED_WITHIN)
        .await?;
    let keys: Vec<String> =
        sqlx::query_scalar("select idempotency_key from charges where reference = $1")
            .bind(id.to_string())
            .fetch_all(&story.psp)
            .await?;
    println!("   psp=# select idempotency_key from charges where reference = …;  →  {keys:?}");
    ensure!(keys == [format!("pay:{id}:2")], "charged under {keys:?}");
    Ok(())
}
