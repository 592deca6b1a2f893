//! A proxy in front of one Kafka broker that understands the answers which name brokers.
//!
//! It forwards everything, and writes its own address into these answers, so that clients never connect to the
//! broker directly. While it hides the broker, it removes all brokers from the metadata, as a cluster does for
//! a moment when all its brokers come back from a pause.

mod response;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use response::{Api, Request};

/// Longest request or response. Tests send small messages.
const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A proxy that runs until it is dropped.
#[derive(Debug)]
pub struct KafkaProxy {
    /// Host and port, for `bootstrap.servers`.
    pub address: String,
    state: Arc<State>,
    _listener: AbortOnDropHandle<()>,
}

#[derive(Debug, Default)]
struct State {
    is_hiding: AtomicBool,
    /// Metadata answers without brokers.
    hidden: AtomicUsize,
    /// Open connections of clients.
    connections: AtomicUsize,
}

impl KafkaProxy {
    /// Starts a proxy. `brokers` must name one broker, which is the whole cluster.
    pub async fn to(brokers: &str) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let broker = brokers.split(',').next().context("no broker")?.to_owned();
        let state = Arc::<State>::default();
        let proxy = Proxy {
            address,
            broker,
            state: Arc::clone(&state),
        };
        Ok(Self {
            address: address.to_string(),
            state,
            _listener: AbortOnDropHandle::new(tokio::spawn(proxy.run(listener))),
        })
    }

    /// From now on the metadata names no broker.
    pub fn hide_broker(&self) {
        self.state.is_hiding.store(true, Ordering::SeqCst);
    }

    /// From now on the metadata names the broker again.
    pub fn show_broker(&self) {
        self.state.is_hiding.store(false, Ordering::SeqCst);
    }

    /// How many metadata answers have named no broker.
    pub fn hidden(&self) -> usize {
        self.state.hidden.load(Ordering::SeqCst)
    }

    /// How many connections clients have open.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }
}

#[derive(Clone)]
struct Proxy {
    address: SocketAddr,
    broker: String,
    state: Arc<State>,
}

impl Proxy {
    async fn run(self, listener: TcpListener) {
        // Dropping the set closes the connections.
        let mut connections = JoinSet::new();
        while let Ok((client, _)) = listener.accept().await {
            let proxy = self.clone();
            connections.spawn(async move {
                proxy.state.connections.fetch_add(1, Ordering::SeqCst);
                // An error means that one end is gone.
                let _ = proxy.forward(client).await;
                proxy.state.connections.fetch_sub(1, Ordering::SeqCst);
            });
            while connections.try_join_next().is_some() {}
        }
    }

    /// Forwards both ways until one end closes.
    async fn forward(&self, client: TcpStream) -> io::Result<()> {
        let broker = TcpStream::connect(&self.broker).await?;
        let (from_client, to_client) = client.into_split();
        let (from_broker, to_broker) = broker.into_split();
        let open = Open::default();
        tokio::select! {
            ended = forward_requests(from_client, to_broker, &open) => ended,
            ended = self.forward_responses(from_broker, to_client, &open) => ended,
        }
    }

    async fn forward_responses(
        &self,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        open: &Open,
    ) -> io::Result<()> {
        loop {
            let mut frame = read_frame(&mut from).await?;
            if let Some(request) = open.take(&frame) {
                let is_hiding = self.state.is_hiding.load(Ordering::SeqCst);
                let hides = is_hiding && request.api == Api::Metadata;
                let brokers = if hides { None } else { Some(self.address) };
                frame = response::with_brokers(request, &frame, brokers)?;
                if hides {
                    self.state.hidden.fetch_add(1, Ordering::SeqCst);
                }
            }
            write_frame(&mut to, &frame).await?;
        }
    }
}

/// Requests without a response whose response names brokers, by correlation id.
#[derive(Default)]
struct Open(Mutex<HashMap<i32, Request>>);

impl Open {
    fn add(&self, frame: &[u8]) {
        if let Some((id, request)) = Request::of(frame) {
            let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            open.insert(id, request);
        }
    }

    fn take(&self, frame: &[u8]) -> Option<Request> {
        let id = response::correlation_id(frame)?;
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.remove(&id)
    }
}

async fn forward_requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    open: &Open,
) -> io::Result<()> {
    loop {
        let frame = read_frame(&mut from).await?;
        open.add(&frame);
        write_frame(&mut to, &frame).await?;
    }
}

/// A request or a response without its length.
async fn read_frame(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = from.read_i32().await?;
    let length = usize::try_from(length).ok();
    let length = length.filter(|length| *length <= FRAME_BYTES_MAX);
    let mut frame = vec![0; length.ok_or(io::ErrorKind::InvalidData)?];
    from.read_exact(&mut frame).await?;
    Ok(frame)
}

async fn write_frame(to: &mut OwnedWriteHalf, frame: &[u8]) -> io::Result<()> {
    let length = i32::try_from(frame.len()).map_err(|_| io::ErrorKind::InvalidData)?;
    to.write_all(&[&length.to_be_bytes(), frame].concat()).await
}
