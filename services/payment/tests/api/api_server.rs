//! The HTTP API on a free port, without chargers behind it. Tests step the chargers and the recorder.

use std::sync::Arc;
use std::time::Duration;

use api_keys::Authenticator;
use payment::charger::ChargerQueues;
use payment::direct::{DirectCharges, POLL_DEFAULT};
use payment::routes::{self, Services};
use payment::waiting::Waiting;
use service_kit::{FairShare, http};
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::api_client::ApiClient;
use crate::harness::Harness;
use crate::reconciling::reconciler;

const NEVER: Duration = Duration::from_secs(3_600);
const KEY_WINDOW_SECONDS: u64 = 3_600;
/// One principal gets half of them.
pub(crate) const WAITERS_MAX: usize = 200;

pub(crate) struct ApiServer {
    pub(crate) client: ApiClient,
    pub(crate) waiting: Waiting,
    _stop: DropGuard,
}

impl ApiServer {
    /// `wait`: how long a request waits for its outcome.
    pub(crate) async fn start(harness: &Harness, wait: Duration) -> Self {
        Self::start_with(harness, harness.pool.clone(), wait, POLL_DEFAULT).await
    }

    /// Its requests wait until they are woken.
    pub(crate) async fn start_without_poll(harness: &Harness) -> Self {
        Self::start_with(harness, harness.pool.clone(), NEVER, NEVER).await
    }

    pub(crate) async fn start_with(
        harness: &Harness,
        pool: PgPool,
        wait: Duration,
        poll: Duration,
    ) -> Self {
        let (waiting, shutdown) = (Waiting::default(), CancellationToken::new());
        let services = Services {
            pool: pool.clone(),
            reconciler: reconciler(harness, Duration::ZERO),
            authenticator: Authenticator::new(pool.clone()),
            direct_charges: DirectCharges {
                pool: pool.clone(),
                queues: Arc::new(ChargerQueues::new(NEVER)),
                waiters: FairShare::new(WAITERS_MAX),
                waiting: waiting.clone(),
                key_window_seconds: KEY_WINDOW_SECONDS,
                wait,
                poll,
                closing: CancellationToken::new(),
            },
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = ApiClient::new(listener.local_addr().unwrap().port());
        let router = http::finish(routes::table(services), pool);
        tokio::spawn(http::serve(listener, router, shutdown.clone()));
        Self {
            client,
            waiting,
            _stop: shutdown.drop_guard(),
        }
    }
}
