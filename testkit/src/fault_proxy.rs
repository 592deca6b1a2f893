//! A TCP proxy in front of a server. It can close, go silent, hold responses, or lose one request or response.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use reqwest::Url;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

const CHUNK_BYTES: usize = 16 * 1024;
/// The bytes that a Postgres client sends to commit.
const COMMIT: &[u8] = b"COMMIT\0";

/// Forwards connections to a server until a fault is set. Dropping it closes them.
#[derive(Debug)]
pub struct FaultProxy {
    /// The server's URL through the proxy.
    pub url: String,
    state: watch::Sender<State>,
    is_holding: watch::Sender<bool>,
    armed: Arc<Mutex<Option<ArmedLoss>>>,
    unanswered: Arc<AtomicUsize>,
    _listener: AbortOnDropHandle<()>,
}

/// How connections are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The port is closed, and so are the open connections.
    Closed,
    /// Connections are accepted, and no byte passes. Connections that existed in this state stay silent
    /// even after the proxy opens again, as if a router had lost them.
    Silent,
}

/// What happens to the connection that sends a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The connection closes, and the server never receives the request.
    Request,
    /// The server executes the request, and the connection closes before the response.
    Response,
    /// The server executes the request, and the connection stays open and silent.
    ResponseThenSilence,
}

#[derive(Debug)]
struct ArmedLoss {
    marker: Vec<u8>,
    loss: Loss,
}

impl FaultProxy {
    pub async fn to(server_url: &str) -> anyhow::Result<Self> {
        let mut url = Url::parse(server_url).context("the server's URL is invalid")?;
        let host = url.host_str().context("the URL has no host")?.to_owned();
        let port = url.port().context("the URL has no port")?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        url.set_host(Some("127.0.0.1"))?;
        url.set_port(Some(address.port()))
            .ok()
            .context("the URL cannot have a port")?;
        let (state, seen) = watch::channel(State::Open);
        let (is_holding, holding) = watch::channel(false);
        let (armed, unanswered) = (Arc::default(), Arc::default());
        let forwarder = Forwarder {
            server: (host, port),
            listen: address.to_string(),
            state: seen,
            holding,
            armed: Arc::clone(&armed),
            unanswered: Arc::clone(&unanswered),
        };
        Ok(Self {
            url: url.into(),
            state,
            is_holding,
            armed,
            unanswered,
            _listener: AbortOnDropHandle::new(tokio::spawn(forwarder.run(listener))),
        })
    }

    /// Closes the port and the open connections.
    pub fn close(&self) {
        self.state.send_replace(State::Closed);
    }

    /// Accepts connections and forwards nothing, without an error.
    pub fn silence(&self) {
        self.state.send_replace(State::Silent);
    }

    /// Forwards new connections again. Silent ones stay silent.
    pub fn open(&self) {
        self.state.send_replace(State::Open);
    }

    /// Keeps what the server sends, until [`FaultProxy::release`]. Requests pass.
    pub fn hold(&self) {
        self.is_holding.send_replace(true);
    }

    /// Passes on what was held, and everything after it.
    pub fn release(&self) {
        self.is_holding.send_replace(false);
    }

    /// Loses the next request that contains these bytes, or its response, once.
    pub fn lose(&self, loss: Loss, marker: impl Into<Vec<u8>>) {
        let marker = marker.into();
        *self.armed.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(ArmedLoss { marker, loss });
    }

    /// The same for the next COMMIT.
    pub fn lose_commit(&self, loss: Loss) {
        self.lose(loss, COMMIT);
    }

    /// Whether the armed loss has happened.
    pub fn has_lost(&self) -> bool {
        let armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        armed.is_none()
    }

    /// On how many silent connections the client has sent something since. It waits for a response there,
    /// or has given up.
    pub fn unanswered(&self) -> usize {
        self.unanswered.load(Ordering::Relaxed)
    }
}

struct Forwarder {
    server: (String, u16),
    listen: String,
    state: watch::Receiver<State>,
    holding: watch::Receiver<bool>,
    armed: Arc<Mutex<Option<ArmedLoss>>>,
    unanswered: Arc<AtomicUsize>,
}

impl Forwarder {
    async fn run(mut self, listener: TcpListener) {
        // Dropping the set closes the connections.
        let mut connections = tokio::task::JoinSet::new();
        let mut listener = Some(listener);
        loop {
            let state = *self.state.borrow_and_update();
            if state == State::Closed {
                listener = None;
                connections.abort_all();
            } else if listener.is_none() {
                listener = TcpListener::bind(&self.listen).await.ok();
            }
            let accept = async {
                match &listener {
                    Some(listener) => listener.accept().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                accepted = accept => if let Ok((client, _)) = accepted {
                    connections.spawn(self.connection(client));
                },
                changed = self.state.changed() => if changed.is_err() {
                    return;
                },
            }
        }
    }

    fn connection(&self, client: TcpStream) -> impl Future<Output = ()> + Send + 'static {
        let (address, mut state) = (self.server.clone(), self.state.clone());
        let mut holding = self.holding.clone();
        let (armed, unanswered) = (Arc::clone(&self.armed), Arc::clone(&self.unanswered));
        async move {
            let (mut client, mut server) = (client, None);
            let forwarded = async {
                server = TcpStream::connect(address).await.ok();
                if let Some(server) = &mut server {
                    forward(&mut client, server, &armed, &mut holding).await;
                }
            };
            let silenced = async {
                let _ = state.wait_for(|state| *state == State::Silent).await;
            };
            tokio::select! {
                biased;
                () = silenced => {}
                () = forwarded => return,
            }
            // While silent, the sockets stay open: to both ends the connection seems to work.
            swallow(&mut client, &unanswered).await;
            std::future::pending::<()>().await;
            drop(server);
        }
    }
}

/// Reads what the client sends until it closes, and counts the connection if that is anything.
async fn swallow(client: &mut TcpStream, unanswered: &AtomicUsize) {
    let mut bytes = [0; CHUNK_BYTES];
    let mut is_counted = false;
    while let Ok(1..) = client.read(&mut bytes).await {
        if !is_counted {
            unanswered.fetch_add(1, Ordering::Relaxed);
            is_counted = true;
        }
    }
}

/// Forwards both ways until one end closes or a loss happens.
async fn forward(
    client: &mut TcpStream,
    server: &mut TcpStream,
    armed: &Mutex<Option<ArmedLoss>>,
    holding: &mut watch::Receiver<bool>,
) {
    let (mut up, mut down) = ([0; CHUNK_BYTES], [0; CHUNK_BYTES]);
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let Ok(1..) = read else { return };
                let sent = &up[..read.unwrap_or_default()];
                let loss = take_loss(armed, sent);
                if loss == Some(Loss::Request) || server.write_all(sent).await.is_err() {
                    return;
                }
                if let Some(loss) = loss {
                    // The server has executed the request once it responds. The client never gets it.
                    let _ = server.read(&mut down).await;
                    if loss == Loss::ResponseThenSilence {
                        std::future::pending::<()>().await;
                    }
                    return;
                }
            }
            read = server.read(&mut down) => {
                let Ok(1..) = read else { return };
                // An error means that the proxy is gone, and with it this connection.
                let released = holding.wait_for(|is_holding| !is_holding).await.is_ok();
                let sent = &down[..read.unwrap_or_default()];
                if !released || client.write_all(sent).await.is_err() {
                    return;
                }
            }
        }
    }
}

fn take_loss(armed: &Mutex<Option<ArmedLoss>>, sent: &[u8]) -> Option<Loss> {
    let mut armed = armed.lock().unwrap_or_else(PoisonError::into_inner);
    let is_marked = |armed: &mut ArmedLoss| {
        let mut windows = sent.windows(armed.marker.len());
        windows.any(|window| window == armed.marker)
    };
    armed.take_if(is_marked).map(|armed| armed.loss)
}
