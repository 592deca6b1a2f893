//! The way to the database, with a knife: it can lose the answer to a COMMIT that was carried out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::Url;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const CHUNK_BYTES: usize = 16 * 1024;

pub(crate) struct Wire {
    /// The database's URL, by way of the wire.
    pub(crate) url: String,
    cut: Arc<AtomicBool>,
}

impl Wire {
    pub(crate) async fn to(database_url: &str) -> Self {
        let mut url = Url::parse(database_url).unwrap();
        let server = (url.host_str().unwrap().to_owned(), url.port().unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(port)).unwrap();
        let cut = Arc::new(AtomicBool::new(false));
        let knife = cut.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect((server.0.as_str(), server.1)).await;
                tokio::spawn(carry(client, server.unwrap(), knife.clone()));
            }
        });
        let url = url.into();
        Self { url, cut }
    }

    /// The next COMMIT is carried out, and its connection breaks before the answer is through.
    pub(crate) fn cut_at_next_commit(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }

    pub(crate) fn has_cut(&self) -> bool {
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
