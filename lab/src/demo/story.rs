//! What the chapters share: the running system, the orders placed so far, and how things are told.

use std::time::Duration;

use anyhow::ensure;
use sqlx::PgPool;
use uuid::Uuid;

use endpoints::Service;
use endpoints::client::{ApiResponse, Client};
use endpoints::{database, provider};
use testkit::system::System;

/// Generous: a consumer group may just be forming, a lease may have to run out first.
pub(super) const SHIPPED_WITHIN: Duration = Duration::from_secs(60);
pub(super) const API_KEY: &str = "demo-key-acme";

pub(super) struct Story<'a> {
    pub(super) system: &'a System,
    pub(super) client: Client,
    /// The provider's own database: the only witness of what was charged.
    pub(super) psp: PgPool,
    pub(super) payment: PgPool,
    orders: Vec<Told>,
    chapter: u32,
}

/// An order of the story, and how it has to end.
pub(super) struct Told {
    pub(super) what: String,
    pub(super) id: Uuid,
    pub(super) end: End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Shipped,
    Refunded,
}

impl End {
    pub(super) fn status(self) -> &'static str {
        match self {
            Self::Shipped => "shipped",
            Self::Refunded => "refunded",
        }
    }

    /// How often its charge is to be given back.
    pub(super) fn refunds(self) -> i64 {
        i64::from(self == Self::Refunded)
    }
}

/// An order of an earlier chapter that a later one comes back to.
pub(super) struct Placed {
    pub(super) key: String,
    pub(super) body: String,
    pub(super) answer: ApiResponse,
}

impl<'a> Story<'a> {
    pub(super) async fn open(system: &'a System) -> anyhow::Result<Self> {
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

    /// Every order of the story is named here, so that the last chapter looks for it in the books.
    pub(super) fn remember(&mut self, what: &str, id: Uuid) {
        self.remember_as(what, id, End::Shipped);
    }

    pub(super) fn remember_as(&mut self, what: &str, id: Uuid, end: End) {
        let what = what.to_owned();
        self.orders.push(Told { what, id, end });
    }

    pub(super) fn orders(&self) -> &[Told] {
        &self.orders
    }

    pub(super) fn show_request(&self, key: &str, body: &str) {
        println!(
            "   $ curl -i {}/orders -H 'Authorization: Bearer {API_KEY}' \\",
            self.client.order_url()
        );
        println!("       -H 'Idempotency-Key: {key}' -H 'Content-Type: application/json' \\");
        println!("       -d '{body}'");
    }

    /// Sends under the key until there is a final answer, and shows both.
    pub(super) async fn send(&self, key: &str, body: &str) -> anyhow::Result<ApiResponse> {
        self.show_request(key, body);
        let answer = self.client.place(key, body).await?;
        show_answer(&answer);
        Ok(answer)
    }

    /// Places a new order that must be accepted.
    pub(super) async fn place(
        &mut self,
        what: &str,
        key: &str,
        body: &str,
    ) -> anyhow::Result<(ApiResponse, Uuid)> {
        let answer = self.send(key, body).await?;
        ensure!(
            answer.status == 201 && !answer.replayed,
            "a new order was answered {}",
            answer.summary()
        );
        let id = answer.order_id()?;
        self.remember(what, id);
        Ok((answer, id))
    }

    /// Waits until every order of the story so far has come to its end.
    pub(super) async fn wait_until_all_ended(&self) -> anyhow::Result<()> {
        for told in &self.orders {
            self.client
                .wait_for_status(told.id, told.end.status(), SHIPPED_WITHIN)
                .await?;
        }
        Ok(())
    }

    /// Physical charges of one order, shown as the query anybody can repeat.
    pub(super) async fn show_charges(&self, id: Uuid) -> anyhow::Result<i64> {
        let count = provider::charges_per_order(&self.psp, &[id])
            .await?
            .get(&id)
            .copied()
            .unwrap_or_default();
        println!("   psp=# select count(*) from charges where reference = '{id}';  →  {count}");
        Ok(count)
    }
}

pub(super) fn show_answer(answer: &ApiResponse) {
    println!(
        "   ← {}{}",
        answer.status,
        if answer.replayed {
            "  Idempotent-Replayed: true"
        } else {
            ""
        }
    );
    println!("     {}", answer.body);
}

pub(super) fn say(text: &str) {
    println!("   {text}");
}
