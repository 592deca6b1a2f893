//! The relay's database session. It holds the shard locks; both end together.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use service_kit::database;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};

use crate::floors::Floors;
use crate::settings::Settings;
use crate::{held, republication, shards};

pub(crate) struct Session {
    pub(crate) connection: PgConnection,
    /// The owned shards, and where to begin to read each.
    pub(crate) floors: Floors,
    /// Whether orders of the owned shards are held.
    pub(crate) any_held: bool,
    /// Whether a republication may be in progress. It ends all sessions when it begins, so a session
    /// that found none when it connected never has to look again.
    pub(crate) republishing: bool,
    shards: Vec<i16>,
    balanced_at: Instant,
    store_wait_max: Duration,
}

/// Makes Postgres end the session of a dead relay, which frees its shards. `idle_session_timeout`
/// covers a paused process. Keepalives cover a machine that disappeared; their default is two hours.
///
/// Also pins the plans: each partition's small index returns the rows of a shard in the order of their
/// ids. A plan made for few rows might collect and sort all unpublished rows, again for every batch of a
/// backlog.
pub(crate) fn options(database: PgConnectOptions, idle_max: Duration) -> PgConnectOptions {
    let idle_max_ms = idle_max.as_millis().to_string();
    database.options([
        ("idle_session_timeout", idle_max_ms.as_str()),
        ("tcp_keepalives_idle", "5"),
        ("tcp_keepalives_interval", "2"),
        ("tcp_keepalives_count", "3"),
        ("enable_seqscan", "off"),
        ("enable_bitmapscan", "off"),
        ("enable_sort", "off"),
        ("enable_hashjoin", "off"),
        ("enable_mergejoin", "off"),
        ("plan_cache_mode", "force_generic_plan"),
        ("jit", "off"),
    ])
}

/// Returns the open session, or connects after an error. Rebalances the shards when that is due.
pub(crate) async fn open<'a>(
    session: &'a mut Option<Session>,
    database: &PgConnectOptions,
    settings: &Settings,
) -> anyhow::Result<&'a mut Session> {
    let open = match session.take() {
        Some(open) if open.balanced_at.elapsed() < settings.rebalance_interval => {
            return Ok(session.insert(open));
        }
        Some(open) => open,
        None => bounded(settings.store_wait_max, connect(database, settings)).await?,
    };
    // The session is not in `session` here: if this fails or is dropped, session and locks end.
    let open = bounded(settings.store_wait_max, balance(open)).await?;
    Ok(session.insert(open))
}

impl Session {
    /// How many shards the relay owns, at least 1.
    pub(crate) fn shards(&self) -> usize {
        self.shards.len().max(1)
    }

    /// Keeps the session alive while the relay waits for the broker.
    pub(crate) async fn keep_alive(&mut self) -> anyhow::Result<()> {
        let ping = async { Ok(self.connection.ping().await?) };
        bounded(self.store_wait_max, ping)
            .await
            .context("keeping the session alive")
    }
}

/// Fails after [`Settings::store_wait_max`].
pub(crate) async fn bounded<T>(
    wait_max: Duration,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    database::with_timeout(wait_max, work).await
}

async fn connect(database: &PgConnectOptions, settings: &Settings) -> anyhow::Result<Session> {
    let mut connection = database.connect().await.context("connecting the relay")?;
    shards::join(&mut connection)
        .await
        .context("registering the relay")?;
    let republishing = republication::find(&mut connection)
        .await
        .context("looking for a republication")?;
    Ok(Session {
        connection,
        floors: Floors::new(settings.full_read_interval),
        any_held: false,
        republishing: republishing.is_some(),
        shards: Vec::new(),
        balanced_at: Instant::now(),
        store_wait_max: settings.store_wait_max,
    })
}

async fn balance(mut session: Session) -> anyhow::Result<Session> {
    session.shards = shards::rebalance(&mut session.connection, session.shards)
        .await
        .context("rebalancing shards")?;
    session.floors.set_shards(&session.shards);
    session.any_held = held::any(&mut session.connection, &session.shards)
        .await
        .context("looking for held orders")?;
    session.balanced_at = Instant::now();
    Ok(session)
}
