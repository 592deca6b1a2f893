//! A cluster that says for a moment that it has no brokers, as Kafka does after all brokers were paused.
//! The client forgets its brokers then, and does not come back by itself (librdkafka issue 5301).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use crate::effects::Effects;
use crate::harness::{Harness, event, eventually};

const METADATA: i16 = 3;
const API_VERSIONS: i16 = 18;
const UNSUPPORTED_VERSION: i16 = 35;
const LEADER_NOT_AVAILABLE: i16 = 5;

/// A bootstrap server of a cluster without brokers. Once it is healed, new connections reach the real
/// broker.
struct EmptyCluster {
    address: String,
    state: Arc<State>,
    _listener: AbortOnDropHandle<()>,
}

struct State {
    broker: String,
    topic: String,
    is_healed: AtomicBool,
    /// How many times it has answered that there are no brokers.
    answers: AtomicUsize,
}

impl EmptyCluster {
    async fn of(broker: &str, topic: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(State {
            broker: broker.to_owned(),
            topic: topic.to_owned(),
            is_healed: AtomicBool::new(false),
            answers: AtomicUsize::new(0),
        });
        let served = state.clone();
        let listening = async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(serve(served.clone(), client));
            }
        };
        let _listener = AbortOnDropHandle::new(tokio::spawn(listening));
        Self {
            address,
            state,
            _listener,
        }
    }
}

/// A closed connection ends the loop; no test depends on how.
async fn serve(state: Arc<State>, mut client: TcpStream) -> std::io::Result<()> {
    if state.is_healed.load(Ordering::SeqCst) {
        let mut broker = TcpStream::connect(&state.broker).await?;
        copy_bidirectional(&mut client, &mut broker).await?;
        return Ok(());
    }
    loop {
        let size = client.read_i32().await?;
        let mut request = vec![0; usize::try_from(size).unwrap_or_default()];
        client.read_exact(&mut request).await?;
        let number = |at: usize| i16::from_be_bytes([request[at], request[at + 1]]);
        let (api, version) = (number(0), number(2));
        let body = match api {
            API_VERSIONS => supported_versions(version),
            METADATA => {
                state.answers.fetch_add(1, Ordering::SeqCst);
                no_brokers(&state.topic)
            }
            _ => return Ok(()),
        };
        let correlation_id = &request[4..8];
        let size = i32::try_from(correlation_id.len() + body.len()).unwrap_or_default();
        client.write_i32(size).await?;
        client.write_all(correlation_id).await?;
        client.write_all(&body).await?;
    }
}

/// Response to ApiVersions, version 0: this server has version 0 of that and version 1 of Metadata.
fn supported_versions(asked: i16) -> Vec<u8> {
    let error = if asked == 0 { 0 } else { UNSUPPORTED_VERSION };
    let mut body = error.to_be_bytes().to_vec();
    body.extend(2_i32.to_be_bytes());
    for number in [API_VERSIONS, 0, 0, METADATA, 0, 1] {
        body.extend(number.to_be_bytes());
    }
    body
}

/// Response to Metadata, version 1: no brokers, no controller, one topic whose partition has no leader.
fn no_brokers(topic: &str) -> Vec<u8> {
    let mut body = 0_i32.to_be_bytes().to_vec();
    body.extend((-1_i32).to_be_bytes());
    body.extend(1_i32.to_be_bytes());
    body.extend(0_i16.to_be_bytes());
    body.extend(i16::try_from(topic.len()).unwrap().to_be_bytes());
    body.extend(topic.as_bytes());
    body.push(0);
    body.extend(1_i32.to_be_bytes());
    body.extend(LEADER_NOT_AVAILABLE.to_be_bytes());
    // Partition 0, leader, and empty lists of replicas.
    for number in [0_i32, -1, 0, 0] {
        body.extend(number.to_be_bytes());
    }
    body
}

#[tokio::test]
async fn client_that_forgot_its_brokers_is_replaced() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    harness.topic.publish_to(0, &event(order, 1)).await;
    let cluster = EmptyCluster::of(&harness.topic.brokers, &harness.topic.name).await;
    let mut settings = harness.settings();
    settings.brokers = cluster.address.clone();
    settings.statistics_interval = Duration::from_millis(200);
    settings.reconnect_after = Duration::from_secs(3);
    let (shutdown, task) = harness.run(settings, Effects::default());
    eventually("the client is told that there are no brokers", async || {
        cluster.state.answers.load(Ordering::SeqCst) > 0
    })
    .await;
    cluster.state.is_healed.store(true, Ordering::SeqCst);
    eventually("a new client finds the broker", async || {
        harness.effects(order).await == [1]
    })
    .await;
    shutdown.cancel();
    task.await.unwrap().unwrap();
}
