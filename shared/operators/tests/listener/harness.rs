//! An operator listener with one route that changes something.

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use endpoints::operator::Token;
use operators::{Operator, TokenList, Tokens, audit};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use service_kit::Problem;
use service_kit::database::{self, STORE_TIMEOUT};
use service_kit::request_error::operator_problem;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection as _, PgPool};
use testkit::postgres::template;
use tokio::net::TcpListener;

use crate::log;

pub(crate) const ANN: &str = "token-of-ann";
pub(crate) const BOB: &str = "token-of-bob";

pub(crate) struct Harness {
    pub(crate) pool: PgPool,
    url: String,
    http: reqwest::Client,
}

async fn migrate(url: String) -> anyhow::Result<()> {
    let folders = vec![sqlx::migrate!("../../migrations/operators")];
    let mut connection = service_kit::migration::run(&url, folders).await?;
    let table = "create table changes (id bigint primary key check (id > 0))";
    sqlx::raw_sql(table).execute(&mut connection).await?;
    Ok(connection.close().await?)
}

impl Harness {
    pub(crate) async fn start() -> Self {
        let setting = [("ann", ANN), ("bob", BOB)]
            .map(|(name, token)| Token::from(token.to_owned()).setting(name));
        Self::start_with(&setting.join(",")).await
    }

    /// `setting`: the value of `OPERATOR_TOKENS`.
    pub(crate) async fn start_with(setting: &str) -> Self {
        log::collect();
        let url = template::copy_for_test("operators", migrate).await.unwrap();
        let pool = PgPoolOptions::new().max_connections(2);
        let pool = pool.connect(&url).await.unwrap();
        let tokens = Tokens::parse(&TokenList::from(setting.to_owned())).unwrap();
        let router = operators::finish(routes(pool.clone()), tokens, pool.clone());
        Self {
            pool,
            url: serve(router).await,
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
        }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.url);
        self.http.request(method, url)
    }

    /// Changes row `id` as ann.
    pub(crate) fn change(&self, id: i64) -> RequestBuilder {
        let change = self.request(Method::POST, &format!("/admin/changes/{id}"));
        change.bearer_auth(ANN).header("x-reason", "ticket 4711")
    }

    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        let count = sqlx::query_scalar(sql).fetch_one(&self.pool);
        count.await.unwrap()
    }

    /// The rows of `changes` and of `audit_log`.
    pub(crate) async fn stored(&self) -> [i64; 2] {
        [
            self.count("select count(*) from changes").await,
            self.count("select count(*) from audit_log").await,
        ]
    }
}

/// A read, and a change in a transaction with its audit row.
pub(crate) fn routes(pool: PgPool) -> Router {
    Router::new()
        .route("/admin/changes", get(async || "read"))
        .route("/admin/changes/{id}", post(change))
        .route("/admin/forgetful", post(async |_: Operator| "changed"))
        .route("/admin/repeat", post(repeat))
        .with_state(pool)
}

/// A request that finds nothing to change.
async fn repeat(operator: Operator) -> &'static str {
    operator.nothing_changed();
    "nothing changed"
}

async fn change(
    State(pool): State<PgPool>,
    Path(id): Path<i64>,
    operator: Operator,
) -> Result<Json<Value>, Problem> {
    let work = database::query_with_timeout(STORE_TIMEOUT, async {
        let mut tx = pool.begin().await?;
        let detail = json!({ "id": id, "text": "with \0 NUL" });
        audit::record(&mut tx, &operator, "change", &id.to_string(), &detail).await?;
        let insert = sqlx::query("insert into changes (id) values ($1)").bind(id);
        insert.execute(&mut *tx).await?;
        tx.commit().await
    });
    work.await.map_err(operator_problem)?;
    Ok(Json(json!({})))
}

/// Serves until the test ends; returns the base URL.
pub(crate) async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

/// Sends; returns the status and the body, which is a problem or anything else.
pub(crate) async fn send(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or_default())
}
