//! What the events of this service have in common.

use std::num::TryFromIntError;

use events::Line;

use crate::domain::order::Item;

/// The source of the events that this service publishes.
pub const SOURCE: &str = "order";
/// The version of the payloads that open an attempt.
pub const ATTEMPT_VERSION: u16 = 2;

/// The lines of a stored order.
pub fn lines(items: Vec<Item>) -> Result<Vec<Line>, TryFromIntError> {
    let line = |item: Item| {
        Ok(Line {
            sku: item.sku,
            quantity: u32::try_from(item.quantity)?,
        })
    };
    items.into_iter().map(line).collect()
}
