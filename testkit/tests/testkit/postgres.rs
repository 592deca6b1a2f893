use sqlx::{Connection, PgConnection};
use testkit::postgres::{Cluster, PROCESS_NAME, database};
use testkit::scratch::Scratch;
use testkit::supervisor::Supervisor;

use testkit::eventually;
use testkit::polling::eventually_some;

#[tokio::test]
async fn killed_cluster_restarts_with_committed_data() {
    let logs = Scratch::new().unwrap();
    let supervisor = Supervisor::new(true, true);
    let cluster = Cluster::start(&supervisor, logs.path(), None)
        .await
        .unwrap();
    cluster.create_database("a \"name\"").await.unwrap();
    let url = database::url(&cluster.url("postgres"), "a \"name\"").unwrap();
    let mut connection = PgConnection::connect(&url).await.unwrap();
    sqlx::raw_sql("CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)")
        .execute(&mut connection)
        .await
        .unwrap();

    supervisor.kill(PROCESS_NAME).await.unwrap();
    eventually("Postgres is restarted", async || {
        supervisor.restarts(PROCESS_NAME) > 0
    })
    .await;
    let mut connection = eventually_some("Postgres accepts connections again", async || {
        PgConnection::connect(&url).await.ok()
    })
    .await;
    let kept: i32 = sqlx::query_scalar("SELECT n FROM kept")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(kept, 7);

    database::drop_now(&cluster.url("postgres"), "a \"name\"")
        .await
        .unwrap();
    assert!(PgConnection::connect(&url).await.is_err());
    cluster.stop(&supervisor).await.unwrap();
    assert_eq!(supervisor.pid(PROCESS_NAME), None);
}
