//! Storing new orders: any number of requests in one statement.

use std::sync::Arc;

use api_keys::Principal;
use events::Envelope;
use idempotency::{ContentHash, Fingerprint, Key, Scope, StoredResponse};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::Draft;

/// Everything that one request stores, made before the database is asked.
#[derive(Debug)]
pub struct NewOrder {
    pub id: Uuid,
    pub principal: Arc<Principal>,
    /// `None` for a request that is idempotent by its URL.
    pub claim: Option<KeyClaim>,
    pub draft: Draft,
    pub content_hash: ContentHash,
    pub event: Envelope,
    pub answer: StoredResponse,
}

#[derive(Clone, Debug)]
pub struct KeyClaim {
    pub route: &'static str,
    pub key: Key,
    pub fingerprint: Fingerprint,
}

impl NewOrder {
    pub fn scope(&self) -> Option<Scope<'_>> {
        self.claim.as_ref().map(|claim| Scope {
            principal_id: &self.principal.id,
            route: claim.route,
            key: &claim.key,
        })
    }
}

/// What became of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Order, items, event, and key with its answer, are stored.
    Placed,
    /// Another request with this key is being stored right now.
    InFlight,
    /// The key is new, but the order is not: its reference or id is taken. The key now holds an
    /// answer that is not true; the transaction must not commit before it is replaced.
    Claimed,
    /// The key (or, without one, the id or reference) is known; nothing was stored.
    Known,
}

/// Stores the orders. Two of them must not have the same id.
pub async fn place(
    connection: &mut PgConnection,
    orders: &[NewOrder],
    window_seconds: u64,
) -> sqlx::Result<Vec<Placement>> {
    let column = Columns::of(orders);
    let rows = sqlx::query_file_scalar!(
        "queries/place_orders.sql",
        &column.ids,
        &column.principals as &[&str],
        &column.routes as &[Option<&str>],
        &column.keys as &[Option<&str>],
        &column.lock_ids as &[Option<i64>],
        &column.fingerprints as &[Option<&[u8]>],
        &column.references as &[Option<&str>],
        &column.customers as &[&str],
        &column.amounts,
        &column.currencies as &[&str],
        &column.methods as &[&str],
        &column.content_hashes as &[&[u8]],
        &column.correlations as &[&str],
        &column.answer_headers,
        &column.answer_bodies as &[&[u8]],
        &column.event_ids,
        &column.payloads as &[&str],
        &column.traceparents as &[Option<&str>],
        &column.shards,
        window_seconds as f64,
        &column.item_orders,
        &column.item_lines,
        &column.item_skus as &[&str],
        &column.item_quantities,
        &column.item_prices,
        StoredResponse::VERSION,
    )
    .fetch_all(connection)
    .await?;
    rows.iter().map(|outcome| read(outcome)).collect()
}

fn read(outcome: &str) -> sqlx::Result<Placement> {
    match outcome {
        "placed" => Ok(Placement::Placed),
        "in_flight" => Ok(Placement::InFlight),
        "claimed" => Ok(Placement::Claimed),
        "known" => Ok(Placement::Known),
        other => Err(sqlx::Error::Decode(
            format!("unknown outcome {other:?}").into(),
        )),
    }
}

/// The orders turned on their side: the statement takes one array per column.
#[derive(Default)]
struct Columns<'a> {
    ids: Vec<Uuid>,
    principals: Vec<&'a str>,
    routes: Vec<Option<&'a str>>,
    keys: Vec<Option<&'a str>>,
    lock_ids: Vec<Option<i64>>,
    fingerprints: Vec<Option<&'a [u8]>>,
    references: Vec<Option<&'a str>>,
    customers: Vec<&'a str>,
    amounts: Vec<i64>,
    currencies: Vec<&'a str>,
    methods: Vec<&'a str>,
    content_hashes: Vec<&'a [u8]>,
    correlations: Vec<&'a str>,
    answer_headers: Vec<serde_json::Value>,
    answer_bodies: Vec<&'a [u8]>,
    event_ids: Vec<Uuid>,
    payloads: Vec<&'a str>,
    traceparents: Vec<Option<&'a str>>,
    shards: Vec<i16>,
    item_orders: Vec<Uuid>,
    item_lines: Vec<i32>,
    item_skus: Vec<&'a str>,
    item_quantities: Vec<i32>,
    item_prices: Vec<i64>,
}

impl<'a> Columns<'a> {
    fn of(orders: &'a [NewOrder]) -> Self {
        let mut columns = Self::default();
        for order in orders {
            columns.add(order);
        }
        columns
    }

    fn add(&mut self, order: &'a NewOrder) {
        let claim = order.claim.as_ref();
        self.ids.push(order.id);
        self.principals.push(&order.principal.id);
        self.routes.push(claim.map(|claim| claim.route));
        self.keys.push(claim.map(|claim| claim.key.as_str()));
        self.lock_ids
            .push(order.scope().map(|scope| scope.lock_id()));
        self.fingerprints
            .push(claim.map(|claim| claim.fingerprint.as_bytes()));
        self.references.push(order.draft.reference.as_deref());
        self.customers.push(&order.draft.customer_id);
        self.amounts.push(order.draft.total.amount());
        self.currencies.push(order.draft.total.currency().code());
        self.methods.push(order.draft.payment_method.as_str());
        self.content_hashes.push(order.content_hash.as_bytes());
        self.correlations.push(&order.event.correlation_id);
        self.answer_headers.push(order.answer.headers_json());
        self.answer_bodies.push(&order.answer.body);
        self.event_ids.push(order.event.id);
        self.payloads.push(&order.event.payload);
        self.traceparents.push(order.event.traceparent.as_deref());
        self.shards.push(outbox::shard_of(order.id));
        for (line, item) in (1..).zip(&order.draft.items) {
            self.item_orders.push(order.id);
            self.item_lines.push(line);
            self.item_skus.push(&item.sku);
            // At most QUANTITY_MAX, checked with the draft.
            self.item_quantities.push(item.quantity as i32);
            self.item_prices.push(item.unit_price.amount());
        }
    }
}
