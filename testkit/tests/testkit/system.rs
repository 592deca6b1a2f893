//! Systems of the real services. Run `cargo build --workspace --bins` first.

use std::path::PathBuf;

use endpoints::{Endpoints, Service};
use sqlx::{Connection, PgConnection};
use testkit::postgres::{Cluster, database};
use testkit::scratch::Scratch;
use testkit::supervisor::Supervisor;
use testkit::system::{Postgres, System, SystemOptions};

use testkit::eventually;
use testkit::process::is_alive;

use crate::WAIT_MAX;

#[tokio::test]
async fn system_starts_recovers_and_stops_cleanly() {
    let mut options = SystemOptions::for_test();
    options.replicas.payment = 2;
    let system = System::start(options).await.unwrap();
    for name in [
        "order",
        "payment",
        "payment-2",
        "fulfilment",
        "receipt",
        "psp",
    ] {
        assert!(system.pid(name).is_some(), "{name} runs");
        system.wait_ready(name, WAIT_MAX).await.unwrap();
    }
    assert_eq!(system.endpoints().urls.payment.len(), 2);
    assert!(system.pid("smtp").is_some(), "the mail sink runs");

    let first = system.pid("payment").unwrap();
    system.kill("payment").await.unwrap();
    assert!(!is_alive(first));
    let described = || Endpoints::load(system.state_dir()).unwrap().pids;
    let is_new = |pid: &u32| *pid != first;
    eventually("the new process is in system.json", async || {
        described().get("payment").is_some_and(is_new)
    })
    .await;
    system.wait_ready("payment", WAIT_MAX).await.unwrap();
    assert_eq!(system.restarts("payment"), 1);

    let pids = system.pids();
    let state_dir: PathBuf = system.state_dir().to_owned();
    system.stop().await.unwrap();
    assert!(!pids.iter().any(|(_, pid)| is_alive(*pid)));
    assert!(!state_dir.exists());
}

#[tokio::test]
async fn system_on_an_existing_server_drops_its_databases() {
    let logs = Scratch::new().unwrap();
    let supervisor = Supervisor::new(true, true);
    let cluster = Cluster::start(&supervisor, logs.path(), None)
        .await
        .unwrap();
    let server = cluster.url("postgres");
    let system = System::start(SystemOptions {
        postgres: Postgres::Existing(server.clone()),
        disposable_server: false,
        ..SystemOptions::for_test()
    })
    .await
    .unwrap();
    let prefix = system.endpoints().prefix;
    assert_eq!(databases(&server, &prefix).await, Service::ALL.len() as i64);
    database::ping(system.database_url(Service::Order))
        .await
        .unwrap();
    system.stop().await.unwrap();
    assert_eq!(databases(&server, &prefix).await, 0);
}

async fn databases(server: &str, prefix: &str) -> i64 {
    let mut connection = PgConnection::connect(server).await.unwrap();
    sqlx::query_scalar("SELECT count(*) FROM pg_database WHERE starts_with(datname, $1)")
        .bind(prefix)
        .fetch_one(&mut connection)
        .await
        .unwrap()
}
