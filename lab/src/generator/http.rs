//! A minimal HTTP/1.1 client for the load generator. It owns its sockets for two reasons. The generator
//! shares its cores with the system that it measures. It must also be able to hang up after a request is
//! sent. It reads only what the order service sends: a status line, headers, and a body of known length.

mod response;

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

pub(crate) use response::Response;
use response::invalid;

/// Concurrent connections of all customers.
const CONNECTIONS_MAX: usize = 512;
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(15);
/// A response of the order service is below 2 KiB; a longer one comes from something else.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;

struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

/// Idle keep-alive connections. The most recently used one is taken first, so that few connections
/// stay busy.
pub(crate) struct Pool {
    addresses: Vec<String>,
    next_address: AtomicUsize,
    idle: Mutex<Vec<Connection>>,
    /// Limits open connections. A request that waits here counts the wait as latency.
    open: Semaphore,
}

impl Connection {
    async fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            received: Vec::with_capacity(2048),
        })
    }

    /// Sends one request and reads its response. After an error the connection must not be used again.
    async fn exchange(&mut self, request: &[u8]) -> io::Result<Response> {
        let whole = async {
            self.stream.write_all(request).await?;
            self.received.clear();
            loop {
                if self.stream.read_buf(&mut self.received).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                if let Some(response) = response::parse(&self.received)? {
                    return Ok(response);
                }
                if self.received.len() > RESPONSE_BYTES_MAX {
                    return Err(invalid("the response is too long"));
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
    pub(crate) fn new(urls: &[String]) -> anyhow::Result<Self> {
        anyhow::ensure!(!urls.is_empty(), "the order service has no address");
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

    /// The value of the requests' host header.
    pub(crate) fn host(&self) -> &str {
        &self.addresses[0]
    }

    pub(crate) async fn exchange(&self, request: &[u8]) -> io::Result<Response> {
        let _permit = self.open.acquire().await.map_err(io::Error::other)?;
        let mut connection = self.take().await?;
        let response = connection.exchange(request).await?;
        self.idle().push(connection);
        Ok(response)
    }

    /// Sends the request and closes the connection after `patience` without reading. The server may have
    /// stored the order, and the client does not know.
    pub(crate) async fn hang_up(&self, request: &[u8], patience: Duration) -> io::Result<()> {
        let _permit = self.open.acquire().await.map_err(io::Error::other)?;
        let mut connection = self.take().await?;
        connection.stream.write_all(request).await?;
        // Even a sleep of zero waits for the timer's next millisecond, enough time to be served.
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
        // A panic elsewhere cannot leave the list half changed, so a poisoned lock is usable.
        self.idle
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
