//! The Kafka client of a consumer: its options, and how it closes.

use std::convert::Infallible;
use std::ops::Deref;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use anyhow::Context as _;
use rdkafka::ClientConfig;
use rdkafka::consumer::{Consumer as _, StreamConsumer};
use tokio::sync::oneshot;

use crate::assignment::Assignment;
use crate::lag::Lag;
use crate::settings::Settings;

/// Heartbeats per session.
const HEARTBEATS: u32 = 4;
/// Longest wait for the client to leave its group when the consumer ends.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// A client that closes on its own thread. Closing waits for brokers that may be unreachable, and never ends
/// if the client has forgotten its brokers. So that thread has a reference of its own. It is the last one, unless
/// [`Client::blocking`] still runs.
pub(crate) struct Client {
    kafka: Arc<StreamConsumer<Assignment>>,
    /// The thread closes the client once this is dropped.
    open: mpsc::Sender<Infallible>,
    closed: oneshot::Receiver<()>,
}

impl Client {
    fn new(kafka: StreamConsumer<Assignment>) -> Self {
        let kafka = Arc::new(kafka);
        let last = kafka.clone();
        let (open, is_open) = mpsc::channel::<Infallible>();
        let (done, closed) = oneshot::channel();
        std::thread::spawn(move || {
            let _ = is_open.recv();
            drop(last);
            let _ = done.send(());
        });
        Self {
            kafka,
            open,
            closed,
        }
    }

    /// Runs work that waits for the broker on a thread of its own. The client may be replaced before the work ends,
    /// and this thread then closes it. A thread of the runtime must not: the process would wait for it at its end.
    pub(crate) fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&StreamConsumer<Assignment>) -> anyhow::Result<T> + Send + 'static,
    ) -> impl Future<Output = anyhow::Result<T>> + Send + 'static {
        let kafka = self.kafka.clone();
        let (done, result) = oneshot::channel();
        std::thread::spawn(move || {
            // The receiver is gone if it no longer waits.
            let _ = done.send(work(&kafka));
            drop(kafka);
        });
        async move { result.await.context("the thread panicked")? }
    }

    /// Leaves the group, so that other consumers need not wait for the end of the session. Waits for a
    /// limited time.
    pub(crate) async fn close(self) {
        drop((self.kafka, self.open));
        if tokio::time::timeout(CLOSE_MAX, self.closed).await.is_err() {
            tracing::warn!("client did not leave its group in time");
        }
    }
}

impl Deref for Client {
    type Target = StreamConsumer<Assignment>;

    fn deref(&self) -> &Self::Target {
        &self.kafka
    }
}

/// A client that has joined the group.
pub(crate) fn subscribe(settings: &Settings, lag: &Lag) -> anyhow::Result<Client> {
    let session_timeout_ms = settings.session_timeout_ms;
    let session = Duration::from_millis(session_timeout_ms.into());
    // The client rejects an interval that is shorter than its session.
    let poll_interval_max = settings.poll_interval_max.max(session);
    let mut options = ClientConfig::new();
    if let Some(name) = &settings.instance_id {
        options.set("group.instance.id", name);
    }
    let kafka: StreamConsumer<Assignment> = options
        .set("bootstrap.servers", &settings.brokers)
        .set("group.id", &settings.group)
        .set("isolation.level", "read_committed")
        // A new group starts with the first message.
        .set("auto.offset.reset", "earliest")
        // We store offsets after the database commit; the client only sends them.
        .set("enable.auto.offset.store", "false")
        .set("auto.commit.interval.ms", "1000")
        .set("session.timeout.ms", session_timeout_ms.to_string())
        .set(
            "heartbeat.interval.ms",
            (session_timeout_ms / HEARTBEATS).to_string(),
        )
        // The default of five minutes is also how long the group would wait for a member that
        // vanished while it joined, and how long the client would wait for a lost answer.
        .set(
            "max.poll.interval.ms",
            poll_interval_max.as_millis().to_string(),
        )
        .set("fetch.wait.max.ms", settings.fetch_wait_max_ms.to_string())
        // Retry a failed fetch soon; the default is a longer back-off.
        .set("fetch.error.backoff.ms", "100")
        // How soon the client finds a topic that was created, or recreated after its broker lost
        // its data. The default is five minutes.
        .set("topic.metadata.refresh.interval.ms", "5000")
        // Limits the read-ahead; the backlog stays in the broker.
        .set("queued.max.messages.kbytes", "4096")
        // Not lower: only a client that fetches learns the end of the log, and with it the lag.
        .set("queued.min.messages", "2000")
        // The lag is computed from the statistics.
        .set(
            "statistics.interval.ms",
            settings.statistics_interval.as_millis().to_string(),
        )
        .create_with_context(Assignment::new(lag.new_client()))
        .context("creating the consumer")?;
    kafka.subscribe(&[&settings.topic]).context("subscribing")?;
    Ok(Client::new(kafka))
}
