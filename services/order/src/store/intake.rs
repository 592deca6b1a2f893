//! Storing new orders: any number of requests in one statement.

use std::sync::Arc;

use api_keys::Principal;
use events::Envelope;
use idempotency::{ContentHash, Fingerprint, Key, Scope, StoredResponse, store as keys};
use service_kit::UNPROTECTED;
use service_kit::database::{self, Inconsistent};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::{Draft, Status};
use crate::responses;
use crate::store::orders;

/// The outcome of one request to place an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Order, items, event, and key with its response, are stored.
    Placed,
    /// The reference already names an order. The key is stored with this response.
    ReferenceTaken(StoredResponse),
    /// Another request holds the key right now. Nothing was stored.
    InFlight,
    /// The key is known or, for a request without a key, the id or the reference is. Nothing was
    /// stored.
    Known,
}

/// Everything that one request stores. It is complete before the first SQL statement.
#[derive(Debug)]
pub struct NewOrder {
    pub id: Uuid,
    pub principal: Arc<Principal>,
    /// `None` for a request that is idempotent by its URL.
    pub claim: Option<KeyClaim>,
    pub draft: Draft,
    pub content_hash: ContentHash,
    pub event: Envelope,
    pub response: StoredResponse,
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

/// Stores the orders. No two of them may have the same id.
///
/// An order with a reference needs a transaction around the call. If the reference is taken, a
/// second statement replaces the response that the first one stored under the key.
pub async fn place(
    connection: &mut PgConnection,
    orders: &[Arc<NewOrder>],
    window_seconds: u64,
) -> Result<Vec<Placement>, database::Error> {
    let states = insert(connection, orders, window_seconds).await?;
    if UNPROTECTED {
        // The statement had no events.
        let placed = orders.iter().zip(&states).filter(|it| it.1 == "placed");
        let events: Vec<Envelope> = placed.map(|(order, _)| order.event.clone()).collect();
        outbox::enqueue(connection, &events).await?;
    }
    let mut placements = Vec::with_capacity(orders.len());
    for (order, state) in orders.iter().zip(states) {
        placements.push(match state.as_str() {
            "placed" => Placement::Placed,
            "in_flight" => Placement::InFlight,
            "known" => Placement::Known,
            "reference_taken" => {
                Placement::ReferenceTaken(replace_response(connection, order).await?)
            }
            other => return Err(inconsistent(order, &format!("unknown state {other:?}")).into()),
        });
    }
    Ok(placements)
}

/// Replaces the response under the key: the order was not created, because its reference names
/// another one.
async fn replace_response(
    connection: &mut PgConnection,
    order: &NewOrder,
) -> Result<StoredResponse, database::Error> {
    let (Some(scope), Some(reference)) = (order.scope(), order.draft.reference.as_deref()) else {
        return Err(inconsistent(
            order,
            "reference taken, but the request has no key or no reference",
        )
        .into());
    };
    let first = orders::find_by_reference(connection, &order.principal.id, reference)
        .await?
        .ok_or_else(|| inconsistent(order, "reference taken, but no order has it"))?;
    let correlation_id = &order.event.correlation_id;
    let response = responses::for_taken_reference(&first, &order.content_hash, correlation_id);
    keys::complete(connection, scope, &response).await?;
    Ok(response)
}

fn inconsistent(order: &NewOrder, what: &str) -> Inconsistent {
    Inconsistent::new(format!("order {}: {what}", order.id))
}

async fn insert(
    connection: &mut PgConnection,
    orders: &[Arc<NewOrder>],
    window_seconds: u64,
) -> sqlx::Result<Vec<String>> {
    let column = Columns::of(orders);
    sqlx::query_file_scalar!(
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
        &column.response_statuses,
        &column.response_headers,
        &column.response_bodies as &[&[u8]],
        &column.event_ids,
        &column.event_types as &[&str],
        &column.sources as &[&str],
        &column.payloads as &[&str],
        &column.traceparents as &[Option<&str>],
        &column.shards,
        &column.item_orders,
        &column.item_lines,
        &column.item_skus as &[&str],
        &column.item_quantities,
        &column.item_prices,
        window_seconds as f64,
        StoredResponse::VERSION,
        Status::Placed.as_str(),
    )
    .fetch_all(connection)
    .await
}

/// The orders by column: the statement takes one array per column.
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
    response_statuses: Vec<i16>,
    response_headers: Vec<serde_json::Value>,
    response_bodies: Vec<&'a [u8]>,
    event_ids: Vec<Uuid>,
    event_types: Vec<&'a str>,
    sources: Vec<&'a str>,
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
    fn of(orders: &'a [Arc<NewOrder>]) -> Self {
        let mut columns = Self::default();
        for order in orders {
            columns.add(order);
        }
        columns
    }

    fn add(&mut self, order: &'a NewOrder) {
        self.add_order(order);
        // Without them the columns are empty, and the statement stores neither a key nor an event.
        if !UNPROTECTED {
            self.add_key(order);
            self.add_event(order);
        }
    }

    fn add_order(&mut self, order: &'a NewOrder) {
        self.ids.push(order.id);
        self.principals.push(&order.principal.id);
        self.references.push(order.draft.reference.as_deref());
        self.customers.push(&order.draft.customer_id);
        self.amounts.push(order.draft.total.amount());
        self.currencies.push(order.draft.total.currency().code());
        self.methods.push(order.draft.payment_method.as_str());
        self.content_hashes.push(order.content_hash.as_bytes());
        self.correlations.push(&order.event.correlation_id);
        for (line, item) in (1..).zip(&order.draft.items) {
            self.item_orders.push(order.id);
            self.item_lines.push(line);
            self.item_skus.push(&item.sku);
            // The draft was checked: at most QUANTITY_MAX.
            self.item_quantities.push(item.quantity as i32);
            self.item_prices.push(item.unit_price.amount());
        }
    }

    fn add_key(&mut self, order: &'a NewOrder) {
        let claim = order.claim.as_ref();
        self.routes.push(claim.map(|claim| claim.route));
        self.keys.push(claim.map(|claim| claim.key.as_str()));
        self.lock_ids
            .push(order.scope().map(|scope| scope.lock_id()));
        self.fingerprints
            .push(claim.map(|claim| claim.fingerprint.as_bytes()));
        // An HTTP status has three digits.
        self.response_statuses.push(order.response.status as i16);
        self.response_headers.push(order.response.headers_json());
        self.response_bodies.push(&order.response.body);
    }

    fn add_event(&mut self, order: &'a NewOrder) {
        self.event_ids.push(order.event.id);
        self.event_types.push(order.event.event_type.as_str());
        self.sources.push(&order.event.source);
        self.payloads.push(&order.event.payload);
        self.traceparents.push(order.event.traceparent.as_deref());
        self.shards.push(outbox::shard_of(order.id));
    }
}
