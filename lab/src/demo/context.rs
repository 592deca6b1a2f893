//! What the chapters share: the running system, the orders placed so far, and how to print.

use std::time::Duration;

use anyhow::ensure;
use endpoints::client::{ApiResponse, Client};
use endpoints::{Service, database, provider};
use sqlx::PgPool;
use testkit::system::System;
use uuid::Uuid;

/// Generous: a consumer group may still be forming, or a lease may have to expire first.
pub(super) const SHIPPED_WITHIN: Duration = Duration::from_secs(60);
pub(super) const API_KEY: &str = "demo-key-acme";

/// The running demo.
pub(super) struct Demo<'a> {
    pub(super) system: &'a System,
    pub(super) client: Client,
    /// The provider's own database, the only proof of what was charged.
    pub(super) psp: PgPool,
    pub(super) payment: PgPool,
    orders: Vec<DemoOrder>,
    chapter: u32,
}

/// An order that a chapter placed, and how it must end.
pub(super) struct DemoOrder {
    pub(super) label: String,
    pub(super) id: Uuid,
    pub(super) expected: FinalStatus,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FinalStatus {
    Shipped,
    Refunded,
}

impl FinalStatus {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Shipped => "shipped",
            Self::Refunded => "refunded",
        }
    }

    /// How many refunds its charge must have.
    pub(super) fn refunds(self) -> i64 {
        i64::from(self == Self::Refunded)
    }
}

/// A request and its response, for a later chapter that repeats the request.
pub(super) struct Placed {
    pub(super) key: String,
    pub(super) body: String,
    pub(super) response: ApiResponse,
}

impl<'a> Demo<'a> {
    pub(super) async fn new(system: &'a System) -> anyhow::Result<Self> {
        Ok(Self {
            system,
            client: Client::new(system.url(Service::Order), API_KEY)?,
            psp: database::connect(system.database_url(Service::Psp)).await?,
            payment: database::connect(system.database_url(Service::Payment)).await?,
            orders: Vec::new(),
            chapter: 0,
        })
    }

    pub(super) fn chapter(&mut self, title: &str) {
        self.chapter += 1;
        println!("\n━━ {}. {title}", self.chapter);
    }

    /// Records an order that must ship. The last chapter looks for every recorded order in the
    /// provider's books.
    pub(super) fn record(&mut self, label: &str, id: Uuid) {
        self.record_as(label, id, FinalStatus::Shipped);
    }

    pub(super) fn record_as(&mut self, label: &str, id: Uuid, expected: FinalStatus) {
        let label = label.to_owned();
        self.orders.push(DemoOrder {
            label,
            id,
            expected,
        });
    }

    pub(super) fn orders(&self) -> &[DemoOrder] {
        &self.orders
    }

    pub(super) fn print_request(&self, key: &str, body: &str) {
        println!(
            "   $ curl -i {}/orders -H 'Authorization: Bearer {API_KEY}' \\",
            self.client.order_url()
        );
        println!("       -H 'Idempotency-Key: {key}' -H 'Content-Type: application/json' \\");
        println!("       -d '{body}'");
    }

    /// Sends with the key until the response is final, and prints request and response.
    pub(super) async fn send(&self, key: &str, body: &str) -> anyhow::Result<ApiResponse> {
        self.print_request(key, body);
        let response = self.client.place(key, body).await?;
        print_response(&response);
        Ok(response)
    }

    /// Places a new order, which must be accepted.
    pub(super) async fn place(
        &mut self,
        label: &str,
        key: &str,
        body: &str,
    ) -> anyhow::Result<(ApiResponse, Uuid)> {
        let response = self.send(key, body).await?;
        ensure!(
            response.status == 201 && !response.replayed,
            "a new order got the response {}",
            response.summary()
        );
        let id = response.order_id()?;
        self.record(label, id);
        Ok((response, id))
    }

    /// Waits until every recorded order has its final status.
    pub(super) async fn wait_until_all_final(&self) -> anyhow::Result<()> {
        for order in &self.orders {
            self.client
                .wait_for_status(order.id, order.expected.as_str(), SHIPPED_WITHIN)
                .await?;
        }
        Ok(())
    }

    /// Counts the physical charges of one order, and prints the query.
    pub(super) async fn print_charges(&self, id: Uuid) -> anyhow::Result<i64> {
        let count = provider::charges_per_order(&self.psp, &[id])
            .await?
            .get(&id)
            .copied()
            .unwrap_or_default();
        println!("   psp=# select count(*) from charges where reference = '{id}';  →  {count}");
        Ok(count)
    }
}

pub(super) fn print_response(response: &ApiResponse) {
    println!(
        "   ← {}{}",
        response.status,
        if response.replayed {
            "  Idempotent-Replayed: true"
        } else {
            ""
        }
    );
    println!("     {}", response.body);
}

/// Prints one line of explanation.
pub(super) fn explain(text: &str) {
    println!("   {text}");
}
