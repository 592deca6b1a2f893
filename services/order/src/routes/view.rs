//! Orders as clients see them.

use chrono::{DateTime, Utc};
use idempotency::{ContentHash, StoredResponse};
use serde::Serialize;
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
    stored(201, &receipt)
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
    stored(200, &receipt)
}

/// For a reference that names an order already: that order if the content is the same, else 409.
pub fn of_taken_reference(first: &Order, content_hash: &ContentHash) -> StoredResponse {
    if first.content_hash == content_hash.as_bytes() {
        return of_known_order(first);
    }
    let problem = error::conflict(Some(first.id));
    StoredResponse {
        status: problem.status().as_u16(),
        headers: vec![(
            "content-type".to_owned(),
            service_kit::problem::CONTENT_TYPE.to_owned(),
        )],
        body: problem.body(),
    }
}

fn stored(status: u16, receipt: &Receipt<'_>) -> StoredResponse {
    let headers = vec![
        ("content-type".to_owned(), "application/json".to_owned()),
        (
            "location".to_owned(),
            format!("/orders/{}", receipt.order_id),
        ),
    ];
    // A struct of strings and numbers always serialises.
    let body = serde_json::to_vec(receipt).unwrap_or_default();
    StoredResponse {
        status,
        headers,
        body,
    }
}
