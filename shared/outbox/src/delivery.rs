//! Delivers rows to the broker in order, and reports what became of each.

use std::collections::{BTreeSet, HashMap};
use std::time::{Instant, SystemTime};

use chrono::Utc;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use rdkafka::producer::DeliveryFuture;
use telemetry::{Kind, Span, metric};
use topic_log::Position;
use uuid::Uuid;

use crate::availability::Availability;
use crate::held::Obstacle;
use crate::kafka::{self, Partitions};
use crate::positions::Delivered;
use crate::settings::Settings;
use crate::store::Row;

/// What became of a batch.
#[derive(Default)]
pub(crate) struct Deliveries {
    /// Rows to mark as published.
    pub(crate) delivered: Vec<Delivered>,
    /// Rows to hold.
    pub(crate) stuck: Vec<(Row, Obstacle)>,
    /// Number of rows that are sent again in a later batch.
    pub(crate) undelivered: usize,
}

impl Deliveries {
    /// Whether every row was delivered.
    pub(crate) fn is_complete(&self) -> bool {
        self.stuck.is_empty() && self.undelivered == 0
    }

    /// Whether no row was delivered, although the broker rejected none.
    pub(crate) fn is_failure(&self) -> bool {
        self.delivered.is_empty() && self.undelivered > 0
    }
}

/// What became of one row.
#[derive(Clone, Debug)]
enum RowOutcome {
    Delivered(Position),
    Stuck(Obstacle),
    Undelivered,
}

/// Sends batches through one producer.
pub(crate) struct Sender<'a> {
    pub(crate) producer: &'a kafka::Producer,
    pub(crate) settings: &'a Settings,
    pub(crate) availability: &'a mut Availability,
    /// The partitions of the topic, once the relay had to know them.
    pub(crate) partitions: &'a mut Option<Partitions>,
}

impl Sender<'_> {
    /// Produces the rows in order and waits for the delivery reports. `held` are orders of which an
    /// earlier event is held.
    ///
    /// Waits for all reports, with one exception: rows of a partition that is unavailable while others
    /// deliver are given up after [`Settings::partition_wait_max`].
    pub(crate) async fn deliver(&mut self, rows: Vec<Row>, held: &BTreeSet<Uuid>) -> Deliveries {
        let mut outcomes: Vec<Option<RowOutcome>> = rows.iter().map(|_| None).collect();
        let mut blocked: BTreeSet<Uuid> = held.clone();
        let mut reports = FuturesUnordered::new();
        let mut spans: HashMap<usize, Span> = HashMap::new();
        for (at, row) in rows.iter().enumerate() {
            if blocked.contains(&row.subject) {
                continue;
            }
            match self.send(row) {
                Ok((report, span)) => {
                    reports.push(async move { (at, report.await) });
                    spans.insert(at, span);
                }
                // Later events of the order are not sent: they would overtake this one.
                Err(outcome) => {
                    outcomes[at] = Some(outcome);
                    blocked.insert(row.subject);
                }
            }
        }
        (self.settings.reached)("relay.produced");
        loop {
            let next = tokio::time::timeout(self.settings.partition_wait_max, reports.next());
            match next.await {
                Ok(Some((at, report))) => {
                    let outcome = outcome_of(report, &rows[at], spans.get_mut(&at));
                    outcomes[at] = Some(outcome);
                }
                Ok(None) => break,
                Err(_) => {
                    self.give_up_on_partitions(&rows, held, &mut outcomes).await;
                    if spans.keys().all(|at| outcomes[*at].is_some()) {
                        break;
                    }
                }
            }
        }
        self.retry_rejected(&rows, &mut outcomes).await;
        self.collect(rows, held, outcomes)
    }

    /// Passes a row to the producer, or returns why that is not possible.
    fn send(&self, row: &Row) -> Result<(DeliveryFuture, Span), RowOutcome> {
        if let Some(partitions) = &*self.partitions {
            let kafka_partition = partitions.of(row.subject);
            let unavailable = self.availability.unavailable(Instant::now());
            if unavailable.contains(&kafka_partition) {
                return Err(RowOutcome::Stuck(Obstacle::Unavailable { kafka_partition }));
            }
        }
        let mut span = publish_span(row, &self.settings.topic);
        match kafka::send(self.producer, &self.settings.topic, row, &span) {
            Ok(report) => Ok((report, span)),
            Err(error) => {
                span.fail(error.to_string());
                Err(outcome_of_error(&error))
            }
        }
    }

    /// Called when no report came for a while. Rows whose partition has no leader are given up, and so
    /// are rows of partitions that stay silent while others deliver.
    async fn give_up_on_partitions(
        &mut self,
        rows: &[Row],
        held: &BTreeSet<Uuid>,
        outcomes: &mut [Option<RowOutcome>],
    ) {
        let Some(partitions) = self.producer.partitions(&self.settings.topic).await else {
            return;
        };
        let some_delivered = outcomes
            .iter()
            .any(|outcome| matches!(outcome, Some(RowOutcome::Delivered(_))));
        for (row, outcome) in rows.iter().zip(outcomes) {
            if outcome.is_some() || held.contains(&row.subject) {
                continue;
            }
            let kafka_partition = partitions.of(row.subject);
            if some_delivered || partitions.is_without_leader(kafka_partition) {
                *outcome = Some(RowOutcome::Stuck(Obstacle::Unavailable { kafka_partition }));
            }
        }
        *self.partitions = Some(partitions);
    }

    /// Kafka rejects messages by the batch in which they travel. So a rejected row is sent again,
    /// alone: only then is it certain that the row itself is the cause.
    async fn retry_rejected(&self, rows: &[Row], outcomes: &mut [Option<RowOutcome>]) {
        let was_alone = outcomes.len() == 1;
        for (row, outcome) in rows.iter().zip(outcomes) {
            let is_rejected = matches!(outcome, Some(RowOutcome::Stuck(Obstacle::Rejected { .. })));
            if was_alone || !is_rejected {
                continue;
            }
            *outcome = Some(match self.send(row) {
                Ok((report, mut span)) => outcome_of(report.await, row, Some(&mut span)),
                Err(outcome) => outcome,
            });
        }
    }

    /// Groups the rows by outcome. If an earlier row of the same order failed, a row gets the same
    /// outcome, even if it was delivered: it is sent again after that row.
    fn collect(
        &mut self,
        rows: Vec<Row>,
        held: &BTreeSet<Uuid>,
        outcomes: Vec<Option<RowOutcome>>,
    ) -> Deliveries {
        let mut deliveries = Deliveries::default();
        let mut stuck = held.clone();
        let mut undelivered: BTreeSet<Uuid> = BTreeSet::new();
        for (row, outcome) in rows.into_iter().zip(outcomes) {
            if stuck.contains(&row.subject) {
                deliveries.stuck.push((row, Obstacle::Behind));
                continue;
            }
            match outcome {
                Some(RowOutcome::Delivered(position)) if !undelivered.contains(&row.subject) => {
                    self.availability.delivered(position.partition);
                    deliveries.delivered.push(Delivered { row, position });
                }
                Some(RowOutcome::Stuck(obstacle)) if !undelivered.contains(&row.subject) => {
                    stuck.insert(row.subject);
                    deliveries.stuck.push((row, obstacle));
                }
                _ => {
                    undelivered.insert(row.subject);
                    deliveries.undelivered += 1;
                }
            }
        }
        self.note_failed_partitions(&deliveries);
        deliveries
    }

    fn note_failed_partitions(&mut self, deliveries: &Deliveries) {
        let now = Instant::now();
        let already = self.availability.unavailable(now);
        let mut failed = BTreeSet::new();
        for (_, obstacle) in &deliveries.stuck {
            if let Obstacle::Unavailable { kafka_partition } = obstacle
                && !already.contains(kafka_partition)
            {
                failed.insert(*kafka_partition);
            }
        }
        for kafka_partition in failed {
            tracing::warn!(
                kafka_partition,
                "partition is unavailable, holding its orders"
            );
            self.availability.failed(kafka_partition, now);
        }
    }
}

fn outcome_of(
    report: <DeliveryFuture as Future>::Output,
    row: &Row,
    span: Option<&mut Span>,
) -> RowOutcome {
    let error = match report {
        Ok(Ok(delivery)) => {
            if !row.republished {
                let waited = (Utc::now() - row.created_at).to_std().unwrap_or_default();
                metrics::histogram!(metric::OUTBOX_WAIT_SECONDS).record(waited);
            }
            return RowOutcome::Delivered(Position {
                partition: delivery.partition,
                offset: delivery.offset,
            });
        }
        Ok(Err((error, _))) => Some(error),
        // The producer was closed.
        Err(_) => None,
    };
    let text = error.as_ref().map(ToString::to_string).unwrap_or_default();
    tracing::debug!(order_id = %row.subject, error = text, "event not delivered");
    if let Some(span) = span {
        span.fail(text);
    }
    error.map_or(RowOutcome::Undelivered, |error| outcome_of_error(&error))
}

fn outcome_of_error(error: &rdkafka::error::KafkaError) -> RowOutcome {
    if kafka::is_rejection(error) {
        let reason = error.to_string();
        return RowOutcome::Stuck(Obstacle::Rejected { reason });
    }
    RowOutcome::Undelivered
}

/// The span starts when the row was written, so the trace shows the time spent in the outbox.
fn publish_span(row: &Row, topic: &str) -> Span {
    let written_at = SystemTime::from(row.created_at);
    let parent = row.traceparent.as_deref();
    let name = format!("send {topic}");
    let mut span = Span::start_at(name, Kind::Producer, parent, Some(written_at));
    span.set("messaging.system", || "kafka");
    span.set("messaging.operation.type", || "send");
    span.set("messaging.destination.name", || topic.to_owned());
    span.set("messaging.message.id", || row.event_id.to_string());
    span.set("messaging.kafka.message.key", || row.subject.to_string());
    span.set("event.type", || row.event_type.clone());
    span.set("order.id", || row.subject.to_string());
    span.set("correlation_id", || row.correlation_id.clone());
    span.set("outbox.wait_ms", || {
        (Utc::now() - row.created_at).num_milliseconds()
    });
    span
}
