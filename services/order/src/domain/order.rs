//! A stored order, as the store reads it.

use chrono::{DateTime, Utc};
use uuid::Uuid;

#[derive(Clone, Debug)]
pub struct Order {
    pub id: Uuid,
    pub reference: Option<String>,
    pub customer_id: String,
    pub status: String,
    pub version: i32,
    pub attempt: i32,
    pub amount: i64,
    pub currency: String,
    pub payment_method: String,
    pub content_hash: Vec<u8>,
    /// Whether a client requested cancellation.
    pub cancel_requested: bool,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

#[derive(Clone, Debug)]
pub struct Item {
    pub sku: String,
    pub quantity: i32,
    pub unit_price: i64,
}
