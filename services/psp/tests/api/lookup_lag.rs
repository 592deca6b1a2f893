//! Lookups and ledgers that lag behind the books.

use reqwest::Method;
use serde_json::{Value, json};

use crate::server::{Server, order, refund_of};

const AN_HOUR: &[&str] = &["--psp-lookup-lag-ms", "3600000"];

/// A charge and its refund, both new.
async fn refunded(server: &Server) -> (Value, Value) {
    let charge = server.charge("k", &order("o-1")).await.json();
    // A refund is not a lookup: it finds a charge that lookups do not show yet.
    let refund = server.refund("back", &refund_of(&charge)).await;
    assert_eq!(refund.status, 201, "{refund:?}");
    (charge, refund.json())
}

/// Makes all rows of the table older than the lag.
async fn age(server: &Server, table: &str) {
    let sql = match table {
        "charges" => "update charges set created_at = created_at - interval '2 hours'",
        _ => "update refunds set created_at = created_at - interval '2 hours'",
    };
    sqlx::query(sql).execute(&server.books).await.unwrap();
}

/// The charges that each lookup shows, and the refunds.
async fn shown(server: &Server, charge: &Value) -> (Vec<Value>, Vec<Value>) {
    let id = charge["id"].as_str().unwrap();
    let by_charge = format!("/v1/refunds?charge_id={id}");
    let (mut charges, mut refunds) = (Vec::new(), Vec::new());
    for path in [
        "/v1/charges?key=k",
        "/v1/charges?reference=o-1",
        "/v1/ledger",
    ] {
        charges.push(server.get(path).await["data"].clone());
    }
    for path in [
        "/v1/refunds?key=back",
        "/v1/refunds?reference=o-1",
        &by_charge,
        "/v1/ledger/refunds",
    ] {
        refunds.push(server.get(path).await["data"].clone());
    }
    let path = format!("/v1/charges/{id}");
    let one = server.call(Method::GET, &path, None).await;
    charges.push(match one.status.as_u16() {
        404 => json!([]),
        _ => json!([one.json()]),
    });
    (charges, refunds)
}

/// How many entries each list has.
fn lengths(lists: &[Value]) -> Vec<usize> {
    let lengths = lists.iter().map(|list| list.as_array().unwrap().len());
    lengths.collect()
}

#[tokio::test]
async fn lookups_show_only_entries_older_than_the_lag() {
    let server = Server::start_with(AN_HOUR).await;
    let (charge, refund) = refunded(&server).await;
    let (charges, refunds) = shown(&server, &charge).await;
    assert_eq!(lengths(&charges), [0; 4]);
    assert_eq!(lengths(&refunds), [0; 4]);

    age(&server, "charges").await;
    let (charges, refunds) = shown(&server, &charge).await;
    assert_eq!(lengths(&charges), [1; 4]);
    assert_eq!(lengths(&refunds), [0; 4]);
    for list in charges {
        assert_eq!(list[0]["refunds"], json!([]));
    }

    age(&server, "refunds").await;
    let (charges, refunds) = shown(&server, &charge).await;
    assert_eq!(lengths(&refunds), [1; 4]);
    for list in charges {
        assert_eq!(list[0]["id"], charge["id"]);
        assert_eq!(list[0]["refunds"][0]["id"], refund["id"]);
    }
}

#[tokio::test]
async fn replays_and_cancellations_do_not_lag() {
    let server = Server::start_with(AN_HOUR).await;
    let (charge, refund) = refunded(&server).await;
    let replay = server.charge("k", &order("o-1")).await;
    assert_eq!((replay.replayed, replay.json()), (true, charge.clone()));
    let replay = server.refund("back", &refund_of(&charge)).await;
    assert_eq!((replay.replayed, replay.json()), (true, refund));
    let cancelled = server.cancel("k").await.json();
    let expected = json!({"key": "k", "status": "captured", "charge": charge});
    assert_eq!(cancelled, expected);
}

#[tokio::test]
async fn without_a_lag_every_entry_is_shown() {
    let server = Server::start().await;
    let (charge, _) = refunded(&server).await;
    // As another process with a clock ahead writes them.
    for sql in [
        "update charges set created_at = created_at + interval '1 hour'",
        "update refunds set created_at = created_at + interval '1 hour'",
    ] {
        sqlx::query(sql).execute(&server.books).await.unwrap();
    }
    let (charges, refunds) = shown(&server, &charge).await;
    assert_eq!(lengths(&charges), [1; 4]);
    assert_eq!(lengths(&refunds), [1; 4]);
}
