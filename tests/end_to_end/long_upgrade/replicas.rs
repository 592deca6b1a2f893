//! Requests under a key, sent to either replica of a service.

use std::cell::Cell;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use endpoints::client::{ApiResponse, Client, new_key, order_body};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::harness::{Harness, SETTLE_TIMEOUT};
use crate::payer::{Payer, charge};

const POLL: Duration = Duration::from_millis(100);

/// Both replicas of order and payment, as behind a load balancer.
pub(super) struct Replicas {
    clients: Vec<Client>,
    payers: Vec<Payer>,
}

/// What a client asks for.
pub(super) enum Request {
    Order { body: String },
    PayAgain { order: Uuid },
    Direct { amount: i64 },
}

/// A request with its key and its first response, which every replay must repeat.
pub(super) struct Answered {
    key: String,
    request: Request,
    response: ApiResponse,
}

impl Answered {
    pub(super) fn order_id(&self) -> anyhow::Result<Uuid> {
        self.response.order_id()
    }
}

impl Replicas {
    pub(super) fn of(harness: &Harness) -> anyhow::Result<Self> {
        let urls = harness.system.endpoints().urls;
        let clients = urls
            .order
            .iter()
            .map(|url| Client::new(url, "demo-key-acme"));
        let payer = Payer::of(harness)?;
        Ok(Self {
            clients: clients.collect::<anyhow::Result<_>>()?,
            payers: urls.payment.iter().map(|url| payer.at(url)).collect(),
        })
    }

    /// Sends the request to one replica, once.
    async fn send(
        &self,
        index: usize,
        key: &str,
        request: &Request,
    ) -> anyhow::Result<ApiResponse> {
        match request {
            Request::Order { body } => self.clients[index].send(Some(key), body).await,
            Request::PayAgain { order } => {
                let client = &self.clients[index];
                client.pay_again(*order, key, "pm_card_ok").await
            }
            Request::Direct { amount } => self.payers[index].send(key, &charge(*amount)).await,
        }
    }

    /// Sends the request under a new key to the replicas in turn, until the response is final.
    pub(super) async fn answer(&self, request: Request) -> anyhow::Result<Answered> {
        let key = new_key("upgrade");
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        for index in (0..self.clients.len()).cycle() {
            let last = match self.send(index, &key, &request).await {
                Ok(response) if response.status == 201 => {
                    return Ok(Answered {
                        key,
                        request,
                        response,
                    });
                }
                Ok(response) if response.status < 500 => {
                    anyhow::bail!("the response is {}", response.summary())
                }
                Ok(response) => response.summary(),
                Err(error) => format!("{error:#}"),
            };
            ensure!(Instant::now() < deadline, "no final response: {last}");
            sleep(POLL).await;
        }
        anyhow::bail!("there is no replica")
    }

    pub(super) async fn place(&self, body: String) -> anyhow::Result<Answered> {
        self.answer(Request::Order { body }).await
    }

    /// Places this many orders, one after the other.
    pub(super) async fn place_many(&self, count: usize) -> anyhow::Result<Vec<Answered>> {
        let mut placed = Vec::with_capacity(count);
        for _ in 0..count {
            placed.push(self.place(order_body(1)).await?);
        }
        Ok(placed)
    }

    /// Sends an order with a reference to each replica again, under new keys. Each answers with the order that has it.
    pub(super) async fn expect_found(&self, order: &Answered) -> anyhow::Result<()> {
        let Request::Order { body } = &order.request else {
            anyhow::bail!("the request is not an order");
        };
        for client in &self.clients {
            let found = client.send(Some(&new_key("reference")), body).await?;
            ensure!(found.status == 200, "{}", found.summary());
            ensure!(found.order_id()? == order.order_id()?, "{}", found.body);
        }
        Ok(())
    }

    /// Sends a request again to each replica that runs. Each replays the first response.
    pub(super) async fn replay(&self, answered: &Answered) -> anyhow::Result<()> {
        let Answered {
            key,
            request,
            response,
        } = answered;
        let mut replays = 0;
        for index in 0..self.clients.len() {
            let Ok(again) = self.send(index, key, request).await else {
                continue;
            };
            ensure!(again.replayed, "replica {index}: {}", again.summary());
            ensure!(
                (again.status, &again.body) == (response.status, &response.body),
                "replica {index} replays {} instead of {}",
                again.body,
                response.body
            );
            replays += 1;
        }
        ensure!(replays > 0, "no replica runs");
        Ok(())
    }

    /// The same for many requests, at replicas that all run.
    pub(super) async fn replay_all(&self, all: &[Answered]) -> anyhow::Result<()> {
        for answered in all {
            self.replay(answered)
                .await
                .with_context(|| format!("the replay of {}", answered.key))?;
        }
        Ok(())
    }

    /// Places orders until it is stopped, and sends each key again.
    pub(super) async fn load(&self, stopped: &Cell<bool>) -> anyhow::Result<Vec<Answered>> {
        let mut placed = Vec::new();
        while !stopped.get() {
            let order = self.place(order_body(2)).await?;
            self.replay(&order).await?;
            placed.push(order);
            sleep(POLL).await;
        }
        Ok(placed)
    }
}
