//! Counts the pages that statements read. Counts are stable where times are not, so tests may assert
//! on them.

use anyhow::Context as _;
use sqlx::{Connection as _, PgConnection};

/// Counts the pages that each statement of one database reads.
pub struct PageCount {
    connection: PgConnection,
}

/// The work of one statement since the count began.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct StatementPages {
    pub statement: String,
    pub calls: i64,
    pub rows: i64,
    /// Pages read from the buffer cache or from disk.
    pub pages: i64,
}

impl PageCount {
    /// Begins to count in this database, which belongs to the test alone. Needs a server that
    /// [`super::Cluster::start`] started, with `pg_stat_statements` installed.
    pub async fn begin(url: &str) -> anyhow::Result<Self> {
        let mut connection = PgConnection::connect(url).await?;
        sqlx::raw_sql("create extension if not exists pg_stat_statements")
            .execute(&mut connection)
            .await
            .context("pg_stat_statements is missing: install Postgres with its contrib modules")?;
        let mut count = Self { connection };
        count.restart().await?;
        Ok(count)
    }

    /// Sets all counts to zero.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        sqlx::query(
            "select pg_stat_statements_reset(0, oid, 0) from pg_database
             where datname = current_database()",
        )
        .execute(&mut self.connection)
        .await?;
        Ok(())
    }

    /// What each statement has read since the start, most pages first.
    pub async fn statements(&mut self) -> anyhow::Result<Vec<StatementPages>> {
        let statements = sqlx::query_as(
            "select query as statement, calls, rows, shared_blks_hit + shared_blks_read as pages
             from pg_stat_statements
             where dbid = (select oid from pg_database where datname = current_database())
               and query not like '%pg_stat_statements%'
             order by pages desc",
        );
        Ok(statements.fetch_all(&mut self.connection).await?)
    }

    /// Pages that statements containing `part` have read since the start. Fails if none ran: a count
    /// of zero would otherwise pass every limit.
    pub async fn pages_of(&mut self, part: &str) -> anyhow::Result<i64> {
        let statements = self.statements().await?;
        let matching: Vec<_> = statements
            .iter()
            .filter(|s| s.statement.contains(part))
            .collect();
        anyhow::ensure!(
            !matching.is_empty(),
            "no statement with {part:?} ran: {statements:#?}"
        );
        Ok(matching.iter().map(|s| s.pages).sum())
    }
}
