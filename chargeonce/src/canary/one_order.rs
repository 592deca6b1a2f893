//! One order of the canary: it is placed, it ships, and its charges are counted.

use std::fmt;
use std::time::Duration;

use endpoints::client::{Client, new_key};
use endpoints::status::ORDER_SHIPPED;
use serde_json::json;
use tokio::time::Instant;
use uuid::Uuid;

use super::books::Books;

pub(super) struct Canary {
    pub(super) client: Client,
    pub(super) books: Books,
    pub(super) body: String,
    /// Longest time from the request until the order has shipped.
    pub(super) within: Duration,
}

/// The result of one order.
#[derive(Debug)]
pub(super) struct OrderReport {
    pub(super) order: Option<Uuid>,
    pub(super) result: Result<(), Failure>,
    pub(super) took: Duration,
}

#[derive(Debug)]
pub(super) enum Failure {
    /// The order was not accepted.
    NotPlaced(String),
    /// The order did not ship in time. It may still ship later.
    NotShipped(String),
    /// The number of charges is not one.
    Charges(i64),
    /// The provider's books could not be read.
    BooksUnreadable(String),
}

impl Failure {
    /// Every value of the label `reason`.
    pub(super) const REASONS: [&str; 4] =
        ["not_placed", "not_shipped", "charges", "books_unreadable"];

    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::NotPlaced(_) => "not_placed",
            Self::NotShipped(_) => "not_shipped",
            Self::Charges(_) => "charges",
            Self::BooksUnreadable(_) => "books_unreadable",
        }
    }
}

impl OrderReport {
    pub(super) fn is_good(&self) -> bool {
        self.result.is_ok()
    }
}

impl fmt::Display for OrderReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = self.order.map_or("–".to_owned(), |id| id.to_string());
        let seconds = self.took.as_secs_f64();
        match &self.result {
            Ok(()) => write!(f, "✓ {order}  one charge, shipped in {seconds:.1} s"),
            Err(failure) => write!(f, "✗ {order}  {failure}, after {seconds:.1} s"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPlaced(error) => write!(f, "not placed: {error}"),
            Self::NotShipped(error) => write!(f, "not shipped: {error}"),
            Self::Charges(charges) => write!(f, "{charges} charges in the provider's books, not 1"),
            Self::BooksUnreadable(error) => write!(f, "cannot read the provider's books: {error}"),
        }
    }
}

impl Canary {
    /// Places one order and follows it to its end.
    pub(super) async fn order(&self) -> OrderReport {
        let start = Instant::now();
        let placed = self.place().await;
        let (order, result) = match placed {
            Err(failure) => (None, Err(failure)),
            Ok(order) => (Some(order), self.follow(order, start).await),
        };
        OrderReport {
            order,
            result,
            took: start.elapsed(),
        }
    }

    async fn place(&self) -> Result<Uuid, Failure> {
        let key = new_key("canary");
        let placed = self.client.place(&key, &self.body);
        let placed = tokio::time::timeout(self.within, placed).await;
        let response = match placed {
            Err(_) => return Err(Failure::NotPlaced("no response in time".to_owned())),
            Ok(Err(error)) => return Err(Failure::NotPlaced(format!("{error:#}"))),
            Ok(Ok(response)) => response,
        };
        if !response.is_accepted() {
            return Err(Failure::NotPlaced(response.summary()));
        }
        let order = response.order_id();
        order.map_err(|error| Failure::NotPlaced(format!("{error:#}")))
    }

    /// Counts the charges even if the order did not ship: too many charges are worse than a late shipment.
    async fn follow(&self, order: Uuid, start: Instant) -> Result<(), Failure> {
        let left = self.within.saturating_sub(start.elapsed());
        let shipped = self
            .client
            .wait_for_status(order, ORDER_SHIPPED, left)
            .await;
        let charges = self.books.charges(order).await;
        match (charges, shipped) {
            (Ok(charges), _) if charges > 1 => Err(Failure::Charges(charges)),
            (_, Err(error)) => Err(Failure::NotShipped(format!("{error:#}"))),
            (Ok(1), Ok(_)) => Ok(()),
            (Ok(charges), Ok(_)) => Err(Failure::Charges(charges)),
            (Err(error), Ok(_)) => Err(Failure::BooksUnreadable(format!("{error:#}"))),
        }
    }
}

/// The order: one unit, at a price of 1.00.
pub(super) fn body(sku: &str, payment_method: &str) -> String {
    let item = json!({"sku": sku, "quantity": 1, "unit_price": 100});
    let body = json!({"customer_id": "canary", "currency": "USD", "items": [item],
                      "payment_method": payment_method});
    body.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_a_listed_reason() {
        let text = String::new;
        let failures = [
            Failure::NotPlaced(text()),
            Failure::NotShipped(text()),
            Failure::Charges(2),
            Failure::BooksUnreadable(text()),
        ];
        assert_eq!(failures.each_ref().map(Failure::reason), Failure::REASONS);
    }

    #[test]
    fn line_names_the_order_and_the_charges() {
        let report = |result| OrderReport {
            order: Some(Uuid::from_u128(7)),
            result,
            took: Duration::from_millis(1_940),
        };
        let good = report(Ok(())).to_string();
        assert!(
            good.ends_with("007  one charge, shipped in 1.9 s"),
            "{good}"
        );
        let bad = report(Err(Failure::Charges(2))).to_string();
        assert!(bad.starts_with("✗ ") && bad.contains("2 charges"), "{bad}");
    }
}
