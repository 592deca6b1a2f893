//! Collects the parts of a service and binds its ports.

use std::pin::Pin;

use axum::Router;
use inbox::{Consumer, Handler};
use operators::Tokens;
use outbox::{Guard, Relay, Wake};
use service_kit::{Gauges, Pressure, Reading, Reaper, Step, Watch, database, http};
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use crate::{Application, Settings};

/// A service under construction. Start with [`Builder::new`], add parts, end with
/// [`Builder::build`]. Nothing runs before [`Application::run_until`].
pub struct Builder {
    name: &'static str,
    settings: Settings,
    pool: PgPool,
    router: Router,
    tokens: Tokens,
    operator_router: Router,
    reaper: Reaper,
    gauges: Gauges,
    workers: Vec<Worker>,
    watch: Watch,
    pressure: Pressure,
}

impl Builder {
    /// Checks the settings and creates the pool. Does not connect: a service starts without its
    /// database and reports that it is not ready.
    pub fn new(name: &'static str, settings: Settings) -> anyhow::Result<Self> {
        settings.retention.check()?;
        Ok(Self {
            name,
            pool: database::connect_lazy(&settings.database, name)?,
            router: Router::new(),
            tokens: settings.operators.tokens()?,
            operator_router: Router::new(),
            reaper: Reaper::new(settings.retention.reaper_interval()),
            gauges: Gauges::default(),
            workers: Vec::new(),
            watch: Watch::default(),
            pressure: Pressure::default(),
            settings,
        })
    }

    /// How long work waits in this service. It has the queues of the relay and the consumer.
    pub fn pressure(&self) -> &Pressure {
        &self.pressure
    }

    /// The pool of this service's database.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Adds an outbox: its relay, the guard against lost events, retention, gauges and operator routes.
    /// The relay publishes immediately when the service calls [`Wake::wake`] after a commit.
    pub fn outbox(self, wake: Wake) -> anyhow::Result<Self> {
        let database = (*self.pool.connect_options()).clone();
        let relay = Relay::new(self.settings.outbox(), database, wake.clone())?;
        let relay = relay.watched(self.pressure.queue());
        let kafka = &self.settings.kafka;
        let (brokers, topic) = (&kafka.kafka_brokers, &kafka.kafka_topic);
        let guard = Guard::new(self.pool.clone(), brokers, topic, wake.clone())?;
        let sweep = outbox::sweep(&self.pool, &self.settings.retention);
        let gauge = outbox::gauge(&self.pool);
        let routes = outbox::routes(self.pool.clone(), wake);
        Ok(self
            .operator_routes(routes)
            .worker("relay", |shutdown| relay.run(shutdown))
            .worker("outbox guard", |shutdown| guard.run(shutdown))
            .sweep("old outbox partitions", sweep)
            .gauge("outbox backlog", gauge))
    }

    /// Adds a consumer of the topic: its handler, processed messages, parked messages and operator
    /// routes.
    pub fn consumer<H: Handler>(self, handler: H) -> anyhow::Result<Self> {
        let consumer = Consumer::new(self.settings.inbox(), self.pool.clone(), handler)?;
        let consumer = consumer.watched(self.pressure.queue());
        let sweep = inbox::sweep(&self.pool, &self.settings.retention);
        let gauge = inbox::gauge(&self.pool);
        let routes = consumer.routes();
        Ok(self
            .operator_routes(routes)
            .worker("consumer", |shutdown| consumer.run(shutdown))
            .sweep("old processed messages", sweep)
            .gauge("parked messages", gauge))
    }

    /// Adds routes for operators, under `/admin`. They are only on the operator listener. A handler
    /// that changes something takes an [`operators::Operator`] and records an audit row.
    pub fn operator_routes(mut self, routes: Router) -> Self {
        self.operator_router = self.operator_router.merge(routes);
        self
    }

    /// Adds the routes of the service's API, on the customers' port.
    pub fn routes(mut self, routes: Router) -> Self {
        self.router = self.router.merge(routes);
        self
    }

    /// Adds a sweep to the reaper. See [`Reaper::sweep`].
    pub fn sweep<F>(mut self, name: &'static str, step: F) -> Self
    where
        F: Fn() -> Step + Send + Sync + 'static,
    {
        self.reaper = self.reaper.sweep(name, step);
        self
    }

    /// Adds a gauge. See [`Gauges::read`].
    pub fn gauge<F>(mut self, name: &'static str, read: F) -> Self
    where
        F: Fn() -> Reading + Send + Sync + 'static,
    {
        self.gauges = self.gauges.read(name, read);
        self
    }

    /// Adds a background worker. It must end soon after its token is cancelled, and not before. It
    /// reports its steps to [`service_kit::Progress::current`].
    pub fn worker<F, W>(mut self, name: &'static str, start: F) -> Self
    where
        F: FnOnce(CancellationToken) -> W + Send + 'static,
        W: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let progress = self.watch.worker(name);
        let start = |shutdown| progress.of(start(shutdown));
        self.workers.push(Worker::new(name, start));
        self
    }

    /// Binds both ports and adds the parts that every service has: reaper, gauges, health, readiness,
    /// pressure and metrics.
    pub async fn build(self) -> anyhow::Result<Application> {
        let Self { reaper, gauges, .. } = self;
        let mut workers = self.workers;
        workers.push(Worker::new("reaper", |shutdown| reaper.run(shutdown)));
        workers.push(Worker::new("gauges", |shutdown| gauges.run(shutdown)));
        let watch = self.watch.clone();
        workers.push(Worker::new("watch", |shutdown| watch.run(shutdown)));
        let pool = self.pool.clone();
        let operator_listen = self.settings.operators.operator_listen;
        Ok(Application {
            name: self.name,
            listener: http::bind(self.settings.listen).await?,
            operator_listener: http::bind(operator_listen).await?,
            router: http::finish_watched(
                self.router.merge(self.pressure.routes()),
                self.pool,
                self.watch,
            ),
            operator_router: operators::finish(self.operator_router, self.tokens, pool),
            workers,
        })
    }
}

type Running = Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>>;

/// A background worker that has not started yet.
pub(crate) struct Worker {
    pub(crate) name: &'static str,
    pub(crate) start: Box<dyn FnOnce(CancellationToken) -> Running + Send>,
}

impl Worker {
    fn new<F, W>(name: &'static str, start: F) -> Self
    where
        F: FnOnce(CancellationToken) -> W + Send + 'static,
        W: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let start = Box::new(move |shutdown| Box::pin(start(shutdown)) as Running);
        Self { name, start }
    }
}
