//! Sends the requests of a run again. Each must get its stored response.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::task::JoinSet;

use super::drive::on_own_thread;
use super::http::Pool;
use super::request::Templates;

/// How often a request is sent that the service cannot answer now.
const TRIES_MAX: u32 = 15;
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Repeats the requests 0 to `requests` (not included) of the run.
pub(crate) async fn run(
    urls: Vec<String>,
    run: u32,
    requests: u64,
    clients: usize,
) -> anyhow::Result<()> {
    on_own_thread(move || async move {
        let pool = Arc::new(Pool::new(&urls)?);
        let templates = Arc::new(Templates::new(pool.host(), run));
        let next = Arc::new(AtomicU64::new(0));
        let mut workers = JoinSet::new();
        for _ in 0..clients {
            let (pool, templates) = (Arc::clone(&pool), Arc::clone(&templates));
            let next = Arc::clone(&next);
            workers.spawn(async move {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= requests {
                        return anyhow::Ok(());
                    }
                    send(&pool, &templates.request(index)).await?;
                }
            });
        }
        workers.join_all().await.into_iter().collect()
    })
    .await
}

async fn send(pool: &Pool, request: &[u8]) -> anyhow::Result<()> {
    for _ in 0..TRIES_MAX {
        let response = pool
            .exchange(request)
            .await
            .context("repeating a request")?;
        if response.is_retryable() {
            tokio::time::sleep(RETRY_PAUSE).await;
            continue;
        }
        ensure!(
            response.replayed && response.order_id.is_some(),
            "a repeated request got {response:?} instead of its stored response"
        );
        return Ok(());
    }
    anyhow::bail!("a repeated request got no response in {TRIES_MAX} tries")
}
