//! The way to a database, with a knife: it can lose the answer to a COMMIT that was carried out. For
//! tests of what a service does when it cannot know whether it has committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use reqwest::Url;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Postgres' own.
const PORT_DEFAULT: u16 = 5432;
const CHUNK_BYTES: usize = 16 * 1024;

/// Carries everything to and fro until it is told to cut.
pub struct Wire {
    /// The database's URL, by way of the wire.
    pub url: String,
    cut: Arc<AtomicBool>,
}

impl Wire {
    /// Opens a way to the database of this URL.
    pub async fn to(database_url: &str) -> anyhow::Result<Self> {
        let mut url = Url::parse(database_url).context("the database URL cannot be read")?;
        let host = url.host_str().context("the database URL has no host")?;
        let server = (host.to_owned(), url.port().unwrap_or(PORT_DEFAULT));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        url.set_host(Some("127.0.0.1"))?;
        let set = url.set_port(Some(port));
        set.map_err(|()| anyhow::anyhow!("the database URL takes no port"))?;
        let cut = Arc::new(AtomicBool::new(false));
        let knife = cut.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // Without a server the client is hung up on.
                if let Ok(server) = TcpStream::connect((server.0.as_str(), server.1)).await {
                    tokio::spawn(carry(client, server, knife.clone()));
                }
            }
        });
        let url = url.into();
        Ok(Self { url, cut })
    }

    /// The next COMMIT is carried out, and its connection breaks before the answer is through.
    pub fn cut_at_next_commit(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }

    /// Whether it did.
    pub fn has_cut(&self) -> bool {
        !self.cut.load(Ordering::SeqCst)
    }
}

async fn carry(mut client: TcpStream, mut server: TcpStream, cut: Arc<AtomicBool>) {
    let (mut up, mut down) = ([0; CHUNK_BYTES], [0; CHUNK_BYTES]);
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let Ok(1..) = read else { return };
                let sent = &up[..read.unwrap_or_default()];
                if server.write_all(sent).await.is_err() {
                    return;
                }
                let commits = sent.windows(7).any(|window| window == b"COMMIT\0");
                if commits && cut.swap(false, Ordering::SeqCst) {
                    // It is done once the server says so; nobody else hears of it.
                    let _ = server.read(&mut down).await;
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
