//! A way to a server that can be closed, fall silent, or lose what it was just carrying.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use reqwest::Url;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

const CHUNK_BYTES: usize = 16 * 1024;
/// What a client of Postgres sends to commit.
const COMMIT: &[u8] = b"COMMIT\0";

/// Lets connections through to a server until it is told otherwise; dropping it ends them.
#[derive(Debug)]
pub struct FaultProxy {
    /// The server's URL, by way of the wire.
    pub url: String,
    state: watch::Sender<State>,
    trap: Arc<Mutex<Option<Trap>>>,
    _carrier: AbortOnDropHandle<()>,
}

/// What happens to connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// Nobody listens, and what was open is cut.
    Closed,
    /// Connections are made, and nothing ever comes through. Those that were open, or are made
    /// meanwhile, stay so for good: a network that lost its memory of them.
    Silent,
}

/// What happens to the connection that carries a marker, at the moment it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The server never sees it, and the connection breaks.
    Request,
    /// The server carries it out, and the connection breaks before the answer is through.
    Response,
    /// The same, but nobody says so: the connection stays, and is silent.
    ResponseThenSilence,
}

#[derive(Debug)]
struct Trap {
    marker: Vec<u8>,
    loss: Loss,
}

impl FaultProxy {
    pub async fn to(server_url: &str) -> anyhow::Result<Self> {
        let mut url = Url::parse(server_url).context("the server's URL cannot be read")?;
        let host = url.host_str().context("the URL names no host")?.to_owned();
        let port = url.port().context("the URL names no port")?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        url.set_host(Some("127.0.0.1"))?;
        url.set_port(Some(address.port()))
            .ok()
            .context("the URL takes no port")?;
        let (state, seen) = watch::channel(State::Open);
        let trap = Arc::default();
        let carrier = Carrier {
            server: (host, port),
            listen: address.to_string(),
            state: seen,
            trap: Arc::clone(&trap),
        };
        Ok(Self {
            url: url.into(),
            state,
            trap,
            _carrier: AbortOnDropHandle::new(tokio::spawn(carrier.run(listener))),
        })
    }

    /// Refuses new connections and cuts the open ones.
    pub fn close(&self) {
        self.state.send_replace(State::Closed);
    }

    /// A black hole: from now on nothing comes through, and nothing says so.
    pub fn silence(&self) {
        self.state.send_replace(State::Silent);
    }

    /// New connections come through again; those that fell silent never do.
    pub fn open(&self) {
        self.state.send_replace(State::Open);
    }

    /// Loses the next message in which these bytes occur, or the answer to it. Once.
    pub fn lose(&self, loss: Loss, marker: impl Into<Vec<u8>>) {
        let marker = marker.into();
        *self.trap.lock().unwrap_or_else(PoisonError::into_inner) = Some(Trap { marker, loss });
    }

    /// The same for the next COMMIT.
    pub fn lose_commit(&self, loss: Loss) {
        self.lose(loss, COMMIT);
    }

    /// Whether what was to be lost is lost.
    pub fn has_lost(&self) -> bool {
        let trap = self.trap.lock().unwrap_or_else(PoisonError::into_inner);
        trap.is_none()
    }
}

struct Carrier {
    server: (String, u16),
    listen: String,
    state: watch::Receiver<State>,
    trap: Arc<Mutex<Option<Trap>>>,
}

impl Carrier {
    async fn run(mut self, listener: TcpListener) {
        // Ends, with its connections, when the wire is dropped.
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
        let (server, mut state) = (self.server.clone(), self.state.clone());
        let trap = Arc::clone(&self.trap);
        async move {
            let mut client = client;
            let carried = async {
                if let Ok(mut server) = TcpStream::connect(server).await {
                    carry(&mut client, &mut server, &trap).await;
                }
            };
            let silenced = async {
                let _ = state.wait_for(|state| *state == State::Silent).await;
            };
            // Not dropped in silence: both ends believe that the connection is there.
            tokio::pin!(carried);
            tokio::select! {
                biased;
                () = silenced => {}
                () = &mut carried => return,
            }
            std::future::pending().await
        }
    }
}

/// Carries both ways until one end closes, or a trap closes.
async fn carry(client: &mut TcpStream, server: &mut TcpStream, trap: &Mutex<Option<Trap>>) {
    let (mut up, mut down) = ([0; CHUNK_BYTES], [0; CHUNK_BYTES]);
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let Ok(1..) = read else { return };
                let sent = &up[..read.unwrap_or_default()];
                let loss = sprung(trap, sent);
                if loss == Some(Loss::Request) || server.write_all(sent).await.is_err() {
                    return;
                }
                if let Some(loss) = loss {
                    // It is done once the server says so; nobody else hears of it.
                    let _ = server.read(&mut down).await;
                    if loss == Loss::ResponseThenSilence {
                        std::future::pending::<()>().await;
                    }
                    return;
                }
            }
            read = server.read(&mut down) => {
                let Ok(1..) = read else { return };
                if client.write_all(&down[..read.unwrap_or_default()]).await.is_err() {
                    return;
                }
            }
        }
    }
}

fn sprung(trap: &Mutex<Option<Trap>>, sent: &[u8]) -> Option<Loss> {
    let mut trap = trap.lock().unwrap_or_else(PoisonError::into_inner);
    let is_marked = |trap: &mut Trap| {
        let mut windows = sent.windows(trap.marker.len());
        windows.any(|window| window == trap.marker)
    };
    trap.take_if(is_marked).map(|trap| trap.loss)
}
