use lab::postgres::{Cluster, PROCESS_NAME, database};
use lab::scratch::Scratch;
use lab::supervisor::Supervisor;
use sqlx::{Connection, PgConnection};

use crate::eventually;

#[tokio::test]
async fn a_killed_cluster_comes_back_with_what_was_committed() {
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
    eventually("it is restarted", || supervisor.restarts(PROCESS_NAME) > 0).await;
    let mut connection = loop {
        match PgConnection::connect(&url).await {
            Ok(connection) => break connection,
            Err(_) => tokio::time::sleep(crate::POLL).await,
        }
        assert!(
            supervisor.restarts(PROCESS_NAME) < 10,
            "it does not come back"
        );
    };
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
