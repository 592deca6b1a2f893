//! A minimal HTTP/1.1 client for the hot path. The generator shares its cores with what it measures,
//! and has to be able to hang up on a request it has fully sent, so it owns its sockets.
//! It reads only what our order service sends: a status line, headers, a body of known length.

mod reply;

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

pub(super) use reply::Reply;
use reply::invalid;

/// Connections at once, over all customers.
const CONNECTIONS_MAX: usize = 512;
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(15);
/// An answer to an order is below 2 KiB; more than this is not ours.
const REPLY_BYTES_MAX: usize = 64 * 1024;

struct Connection {
    stream: TcpStream,
    inbox: Vec<u8>,
}

/// Idle keep-alive connections, last used first, so that a slow moment does not leave many half warm.
pub(super) struct Pool {
    addresses: Vec<String>,
    next_address: AtomicUsize,
    idle: Mutex<Vec<Connection>>,
    /// Arrivals beyond this wait here, and their wait counts in the latency.
    open: Semaphore,
}

impl Connection {
    async fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            inbox: Vec::with_capacity(2048),
        })
    }

    /// One request, one answer. After an error the connection must not be used again.
    async fn exchange(&mut self, request: &[u8]) -> io::Result<Reply> {
        let whole = async {
            self.stream.write_all(request).await?;
            self.inbox.clear();
            loop {
                if self.stream.read_buf(&mut self.inbox).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                if let Some(reply) = reply::parse(&self.inbox)? {
                    return Ok(reply);
                }
                if self.inbox.len() > REPLY_BYTES_MAX {
                    return Err(invalid("the answer is too long"));
                }
            }
        };
        tokio::time::timeout(EXCHANGE_TIMEOUT, whole)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Pool {
    /// Base URLs of the replicas; connections are spread over them.
    pub(super) fn new(urls: &[String]) -> anyhow::Result<Self> {
        anyhow::ensure!(!urls.is_empty(), "no address of the order service");
        let addresses = urls.iter().map(|url| {
            url.trim_start_matches("http://")
                .trim_end_matches('/')
                .to_owned()
        });
        Ok(Self {
            addresses: addresses.collect(),
            next_address: AtomicUsize::new(0),
            idle: Mutex::new(Vec::new()),
            open: Semaphore::new(CONNECTIONS_MAX),
        })
    }

    /// For the requests' host header.
    pub(super) fn host(&self) -> &str {
        &self.addresses[0]
    }

    pub(super) async fn exchange(&self, request: &[u8]) -> io::Result<Reply> {
        let _permit = self.open.acquire().await.map_err(io::Error::other)?;
        let mut connection = self.take().await?;
        let reply = connection.exchange(request).await?;
        self.idle().push(connection);
        Ok(reply)
    }

    /// Sends everything and leaves after `patience` without reading: the server has the order, the
    /// client knows nothing.
    pub(super) async fn hang_up(&self, request: &[u8], patience: Duration) -> io::Result<()> {
        let _permit = self.open.acquire().await.map_err(io::Error::other)?;
        let mut connection = self.take().await?;
        connection.stream.write_all(request).await?;
        // Even a sleep of zero waits for the timer's next millisecond, long enough to be served.
        if !patience.is_zero() {
            tokio::time::sleep(patience).await;
        }
        Ok(())
    }

    async fn take(&self) -> io::Result<Connection> {
        let idle = self.idle().pop();
        if let Some(connection) = idle {
            return Ok(connection);
        }
        let next = self.next_address.fetch_add(1, Ordering::Relaxed) % self.addresses.len();
        Connection::open(&self.addresses[next]).await
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        // A panic while pushing or popping cannot leave half a connection behind.
        self.idle
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
