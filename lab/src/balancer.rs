//! `lab balance`: one address in front of all replicas of a service, for Docker Compose.
//!
//! It balances connections, not requests. Each new connection goes to the next address that the name
//! resolves to, or to the one after it if that replica refuses. When a replica dies, its connections
//! break, and the client must retry with the same key.

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use testkit::signals::StopSignals;

/// A live replica on the same network accepts immediately.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Concurrent connections per route; further ones wait to be accepted. Each uses two files.
const CONNECTIONS_MAX: usize = 4_000;
/// Pause after a failed accept: there may be too many open files.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Spread connections over the replicas behind a name until SIGTERM.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address to listen on, and name and port of the replicas: 0.0.0.0:8081=order:8081.
    #[arg(required = true, value_name = "ADDRESS=HOST:PORT")]
    routes: Vec<Route>,
}

#[derive(Debug, Clone)]
struct Route {
    listen: SocketAddr,
    target: String,
}

impl FromStr for Route {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (listen, target) = text.split_once('=').ok_or("expected ADDRESS=HOST:PORT")?;
        let listen = listen
            .parse()
            .map_err(|_| format!("{listen:?} is not an address to listen on"))?;
        match target.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(Route {
                listen,
                target: target.to_owned(),
            }),
            _ => Err(format!("{target:?} is not HOST:PORT")),
        }
    }
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    let mut routes = JoinSet::new();
    for route in args.routes {
        let listener = TcpListener::bind(route.listen)
            .await
            .with_context(|| format!("cannot listen on {}", route.listen))?;
        routes.spawn(serve(listener, route.target));
    }
    signals.next().await;
    Ok(())
}

/// Spreads connections until it is dropped.
async fn serve(listener: TcpListener, target: String) {
    let target: Arc<str> = target.into();
    let turn = Arc::new(AtomicUsize::new(0));
    // Dropping the set closes the connections.
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let (target, turn) = (Arc::clone(&target), Arc::clone(&turn));
        match accepted {
            Ok((client, _)) => {
                connections.spawn(async move { forward(client, &target, &turn).await });
            }
            Err(error) => {
                eprintln!("{target}: accept failed: {error}");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Forwards bytes until either side closes. If no replica accepts, the client's connection is closed, as
/// if the replica had just died.
async fn forward(mut client: TcpStream, target: &str, turn: &AtomicUsize) {
    if let Some(mut replica) = connect(target, turn).await {
        let _ = tokio::io::copy_bidirectional(&mut client, &mut replica).await;
    }
}

/// A connection to one of the replicas that the name resolves to now.
async fn connect(target: &str, turn: &AtomicUsize) -> Option<TcpStream> {
    let replicas = match tokio::net::lookup_host(target).await {
        Ok(found) => found.collect(),
        Err(error) => {
            eprintln!("{target}: {error}");
            return None;
        }
    };
    let turn = turn.fetch_add(1, Ordering::Relaxed);
    let stream = connect_in_turn(replicas, turn).await;
    if stream.is_none() {
        eprintln!("{target}: no replica accepts connections");
    }
    stream
}

/// A connection to the replica whose turn it is, or to the next one that accepts.
async fn connect_in_turn(mut replicas: Vec<SocketAddr>, turn: usize) -> Option<TcpStream> {
    // Name servers shuffle the addresses; round robin needs a fixed order.
    replicas.sort_unstable();
    let first = turn % replicas.len().max(1);
    replicas.rotate_left(first);
    for replica in replicas {
        if let Ok(Ok(stream)) = timeout(CONNECT_TIMEOUT, TcpStream::connect(replica)).await {
            return Some(stream);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[test]
    fn route_has_listen_address_and_target() {
        let route: Route = "0.0.0.0:8081=order:8081".parse().unwrap();
        assert_eq!(route.listen.port(), 8081);
        assert_eq!(route.target, "order:8081");
        for bad in [
            "order:8081",
            "8081=order:8081",
            "0.0.0.0:1=order",
            "0.0.0.0:1=:5",
        ] {
            bad.parse::<Route>().unwrap_err();
        }
    }

    #[tokio::test]
    async fn replicas_take_turns_and_dead_ones_are_skipped() {
        let listeners = [
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
        ];
        let mut replicas = listeners.each_ref().map(|it| it.local_addr().unwrap());
        replicas.sort_unstable();
        let shuffled = vec![replicas[1], replicas[0]];
        for turn in 0..4 {
            let stream = connect_in_turn(shuffled.clone(), turn).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), replicas[turn % 2]);
        }
        let [dead, alive] = listeners;
        let alive_at = alive.local_addr().unwrap();
        drop(dead);
        for turn in 0..4 {
            let stream = connect_in_turn(shuffled.clone(), turn).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), alive_at);
        }
        drop(alive);
        assert!(connect_in_turn(shuffled, 0).await.is_none());
        assert!(connect_in_turn(Vec::new(), 0).await.is_none());
    }

    #[tokio::test]
    async fn bytes_are_forwarded_both_ways() {
        let replica = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = replica.local_addr().unwrap().to_string();
        let front = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = front.local_addr().unwrap();
        let server = tokio::spawn(serve(front, target));
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"ping").await.unwrap();
        let (mut behind, _) = replica.accept().await.unwrap();
        let mut received = [0; 4];
        behind.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"ping");
        behind.write_all(b"pong").await.unwrap();
        client.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"pong");
        server.abort();
    }
}
