//! The two halves of the relay without each other.

use std::time::Duration;

use anyhow::{Context, ensure};
use events::header;
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::util::Timeout;
use sqlx::{Connection, PgPool};
use tokio::time::Instant;
use uuid::Uuid;

/// Rows per statement, as many as the relay takes.
const BATCH_ROWS: i64 = 500;
/// As large as the order service's payload.
const PAYLOAD_BYTES: usize = 600;
/// Longest wait for the first connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the client collects messages of a batch. The relay does not wait, because it sends whole batches.
const LINGER_MS: &str = "5";

const READ: &str =
    "select (shard::bigint << 48) + id, event_id, event_type, source, subject, correlation_id,
        traceparent, payload, created_at
     from outbox where published_at is null and not held
     order by (shard::bigint << 48) + id limit $1";
const MARK: &str = "update outbox set published_at = now()
     where (shard::bigint << 48) + id = any($1) and published_at is null and not held";

/// Rows per second that one connection reads and marks, in batches of one commit each.
pub(super) async fn drain_sql(pool: &PgPool, events: u32) -> anyhow::Result<f64> {
    let mut connection = pool.acquire().await?.detach();
    let started = Instant::now();
    let mut drained = 0;
    loop {
        let rows = sqlx::query(READ)
            .bind(BATCH_ROWS)
            .fetch_all(&mut connection)
            .await
            .context("reading the outbox")?;
        if rows.is_empty() {
            break;
        }
        let keys = rows.iter().map(|row| sqlx::Row::try_get::<i64, _>(row, 0));
        let keys: Vec<i64> = keys.collect::<Result<_, _>>()?;
        let marked = sqlx::query(MARK)
            .bind(&keys)
            .execute(&mut connection)
            .await
            .context("marking the outbox")?;
        drained += marked.rows_affected();
    }
    let seconds = started.elapsed().as_secs_f64();
    ensure!(
        drained == u64::from(events),
        "bare SQL drained {drained} of {events} events"
    );
    connection.close().await?;
    Ok(drained as f64 / seconds)
}

/// A producer with the guarantees of the relay's.
pub(super) struct RawProducer {
    client: FutureProducer,
    topic: &'static str,
}

impl RawProducer {
    /// Sends one message, so that the connection exists before the clock starts.
    pub(super) async fn connect(brokers: &str, topic: &'static str) -> anyhow::Result<Self> {
        let client: FutureProducer = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("linger.ms", LINGER_MS)
            .create()
            .context("creating a producer")?;
        let key = Uuid::new_v4().to_string();
        let first = FutureRecord::to(topic).key(&key).payload("{}");
        let sent = client.send(first, Timeout::After(CONNECT_TIMEOUT)).await;
        sent.map_err(|(error, _)| error)
            .context("sending the first message")?;
        Ok(Self { client, topic })
    }

    /// Messages per second, from the first one to the last delivery report.
    pub(super) async fn produce(&self, events: u32) -> anyhow::Result<f64> {
        let payload = "x".repeat(PAYLOAD_BYTES);
        let started = Instant::now();
        let mut reports = Vec::with_capacity(events as usize);
        for _ in 0..events {
            let id = Uuid::new_v4().to_string();
            let record = FutureRecord::to(self.topic)
                .key(&id)
                .payload(&payload)
                .headers(headers(&id));
            let report = self.client.send_result(record);
            reports.push(report.map_err(|(error, _)| error).context("producing")?);
        }
        for report in reports {
            let delivered = report.await.context("the producer dropped a message")?;
            delivered
                .map_err(|(error, _)| error)
                .context("delivering")?;
        }
        Ok(f64::from(events) / started.elapsed().as_secs_f64())
    }
}

/// The headers of a real event.
fn headers(id: &str) -> OwnedHeaders {
    let mut headers = OwnedHeaders::new_with_capacity(9);
    for (key, value) in [
        (header::SPEC_VERSION, header::SPEC_VERSION_VALUE),
        (header::ID, id),
        (header::TYPE, "order.placed"),
        (header::SOURCE, "order"),
        (header::SUBJECT, id),
        (header::TIME, "2026-01-01T00:00:00.000000Z"),
        (header::CONTENT_TYPE, header::CONTENT_TYPE_VALUE),
        (header::CORRELATION_ID, id),
        (
            header::TRACEPARENT,
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ),
    ] {
        let value = Some(value);
        headers = headers.insert(Header { key, value });
    }
    headers
}
