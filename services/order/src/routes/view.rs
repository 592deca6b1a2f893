//! Orders as clients see them.

use chrono::{DateTime, Utc};
use idempotency::{ContentHash, StoredResponse};
use serde::Serialize;
use service_kit::Problem;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::domain::{Draft, Status};
use crate::routes::error;
use crate::store::orders::{Item, Order};

/// The answer to a request that placed an order, or found it placed.
#[derive(Debug, Serialize, ToSchema)]
pub struct Receipt<'a> {
    pub order_id: Uuid,
    pub status: &'a str,
    /// In the currency's minor unit.
    pub amount: i64,
    pub currency: &'a str,
    pub customer_id: &'a str,
    pub reference: Option<&'a str>,
    pub version: i32,
}

/// The answer to a request that opened a further payment attempt.
#[derive(Debug, Serialize, ToSchema)]
pub struct Payment<'a> {
    pub order_id: Uuid,
    /// 2 for the first time that an order is paid again.
    pub attempt: i32,
    /// The order's, from here on.
    pub status: &'a str,
    pub payment_method: &'a str,
    /// In the currency's minor unit.
    pub amount: i64,
    pub currency: &'a str,
    pub version: i32,
}

/// An order with all there is to know.
#[derive(Debug, Serialize, ToSchema)]
pub struct OrderView {
    pub order_id: Uuid,
    pub status: String,
    pub amount: i64,
    pub currency: String,
    pub customer_id: String,
    pub reference: Option<String>,
    pub payment_method: String,
    /// The payment attempt in force.
    pub attempt: i32,
    pub version: i32,
    /// Whether somebody asked for the order not to ship; `status` tells what came of it.
    pub cancel_requested: bool,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<ItemView>>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ItemView {
    pub sku: String,
    pub quantity: i32,
    pub unit_price: i64,
}

impl OrderView {
    pub fn new(order: Order, items: Option<Vec<Item>>) -> Self {
        let item = |item: Item| ItemView {
            sku: item.sku,
            quantity: item.quantity,
            unit_price: item.unit_price,
        };
        Self {
            order_id: order.id,
            status: order.status,
            amount: order.amount,
            currency: order.currency,
            customer_id: order.customer_id,
            reference: order.reference,
            payment_method: order.payment_method,
            attempt: order.attempt,
            version: order.version,
            cancel_requested: order.cancel_requested,
            created_at: order.created_at,
            updated_at: order.updated_at,
            items: items.map(|items| items.into_iter().map(item).collect()),
        }
    }
}

/// 201 for an order that is about to be stored.
pub fn of_new_order(id: Uuid, draft: &Draft) -> StoredResponse {
    let receipt = Receipt {
        order_id: id,
        status: Status::Placed.as_str(),
        amount: draft.total.amount(),
        currency: draft.total.currency().code(),
        customer_id: &draft.customer_id,
        reference: draft.reference.as_deref(),
        version: 1,
    };
    stored(201, id, &receipt)
}

/// 200 for an order that is there already, as it is now.
pub fn of_known_order(order: &Order) -> StoredResponse {
    let receipt = Receipt {
        order_id: order.id,
        status: &order.status,
        amount: order.amount,
        currency: &order.currency,
        customer_id: &order.customer_id,
        reference: order.reference.as_deref(),
        version: order.version,
    };
    stored(200, order.id, &receipt)
}

/// For a reference that names an order already: that order if the content is the same, else 409.
pub fn of_taken_reference(first: &Order, content_hash: &ContentHash) -> StoredResponse {
    if first.content_hash == content_hash.as_bytes() {
        return of_known_order(first);
    }
    of_problem(&error::conflict(Some(first.id)))
}

/// A refusal that is a result: it is stored, and given again.
pub fn of_problem(problem: &Problem) -> StoredResponse {
    StoredResponse {
        status: problem.status().as_u16(),
        headers: vec![(
            "content-type".to_owned(),
            service_kit::problem::CONTENT_TYPE.to_owned(),
        )],
        body: problem.body(),
    }
}

/// 201 for the attempt that the order is about to open.
pub fn of_new_attempt(order: &Order, payment_method: &str) -> StoredResponse {
    let payment = Payment {
        order_id: order.id,
        attempt: order.attempt + 1,
        status: Status::Placed.as_str(),
        payment_method,
        amount: order.amount,
        currency: &order.currency,
        version: order.version + 1,
    };
    stored(201, order.id, &payment)
}

/// 200 for the attempt in force, as it is now.
pub fn of_known_attempt(order: &Order) -> StoredResponse {
    let payment = Payment {
        order_id: order.id,
        attempt: order.attempt,
        status: &order.status,
        payment_method: &order.payment_method,
        amount: order.amount,
        currency: &order.currency,
        version: order.version,
    };
    stored(200, order.id, &payment)
}

/// A version as clients name it.
pub fn etag(version: i32) -> String {
    format!("\"{version}\"")
}

fn stored(status: u16, order_id: Uuid, body: &impl Serialize) -> StoredResponse {
    let headers = vec![
        ("content-type".to_owned(), "application/json".to_owned()),
        ("location".to_owned(), format!("/orders/{order_id}")),
    ];
    // A struct of strings and numbers always serialises.
    let body = serde_json::to_vec(body).unwrap_or_default();
    StoredResponse {
        status,
        headers,
        body,
    }
}
