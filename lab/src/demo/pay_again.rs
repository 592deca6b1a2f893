//! Chapter: the card is declined, and the customer pays with another one.

use anyhow::ensure;
use endpoints::client::{new_key, order_body};

use super::context::{Demo, SHIPPED_WITHIN, explain, print_response};

pub(super) async fn run(demo: &mut Demo<'_>) -> anyhow::Result<()> {
    demo.chapter("A card is declined, and the customer pays with another one");
    let body = order_body(1).replace("pm_card_ok", "pm_card_declined");
    let key = new_key("demo-declined");
    let (_, id) = demo.place("declined, paid again", &key, &body).await?;
    demo.client
        .wait_for_status(id, "declined", SHIPPED_WITHIN)
        .await?;
    explain("Its status is now: declined. The provider took no money. The customer pays again:");
    let (key, method) = (new_key("demo-again"), "pm_card_ok");
    explain(&format!(
        "$ curl -i {}/orders/{id}/payments … -H 'Idempotency-Key: {key}' \\",
        demo.client.order_url()
    ));
    explain(&format!("    -d '{{\"payment_method\":\"{method}\"}}'"));
    let response = demo.client.pay_again(id, &key, method).await?;
    print_response(&response);
    ensure!(response.status == 201, "paying again was rejected");
    let again = demo.client.pay_again(id, &key, method).await?;
    ensure!(again.replayed, "the repeated payment was not a replay");
    explain("The same payment request again is a replay.");
    demo.client
        .wait_for_status(id, "shipped", SHIPPED_WITHIN)
        .await?;
    explain("The order ships. The only charge is that of attempt 2, which has its own key:");
    let keys: Vec<String> =
        sqlx::query_scalar("select idempotency_key from charges where reference = $1")
            .bind(id.to_string())
            .fetch_all(&demo.psp)
            .await?;
    println!("   psp=# select idempotency_key from charges where reference = …;  →  {keys:?}");
    ensure!(keys == [format!("pay:{id}:2")], "charged under {keys:?}");
    Ok(())
}
