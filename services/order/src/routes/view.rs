//! Orders as clients read them.

use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::domain::order::{Item, Order};

/// One order. Items are left out of listings.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct OrderView {
    pub order_id: Uuid,
    pub status: String,
    pub amount: i64,
    pub currency: String,
    pub customer_id: String,
    pub reference: Option<String>,
    pub payment_method: String,
    /// The number of the current payment attempt.
    pub attempt: i32,
    pub version: i32,
    /// Whether cancellation was requested; `status` shows the outcome.
    pub cancel_requested: bool,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<ItemView>>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ItemView {
    pub sku: String,
    pub quantity: i32,
    pub unit_price: i64,
}

impl OrderView {
    pub(super) fn new(order: Order, items: Option<Vec<Item>>) -> Self {
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

/// A version as an entity tag.
pub(super) fn etag(version: i32) -> String {
    format!("\"{version}\"")
}
