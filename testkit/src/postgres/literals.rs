//! The string literals in a schema's constraints and indexes. Tests compare them with the enum that
//! the code writes through.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use sqlx::PgPool;

/// Literals in the constraint of this name.
pub async fn of_constraint(pool: &PgPool, name: &str) -> anyhow::Result<BTreeSet<String>> {
    let sql = "select pg_get_constraintdef(oid) from pg_constraint where conname = $1";
    read(pool, sql, name).await
}

/// Literals in the index of this name, its `where` clause included.
pub async fn of_index(pool: &PgPool, name: &str) -> anyhow::Result<BTreeSet<String>> {
    read(pool, "select pg_get_indexdef($1::regclass)", name).await
}

/// Literals of all constraints and indexes of the table that mention this column, by their names.
pub async fn about(
    pool: &PgPool,
    table: &str,
    column: &str,
) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let definitions: Vec<(String, String)> = sqlx::query_as(
        "select conname::text, pg_get_constraintdef(oid) from pg_constraint
         where conrelid = $1::regclass
         union all
         select indexrelid::regclass::text, pg_get_indexdef(indexrelid) from pg_index
         where indrelid = $1::regclass",
    )
    .bind(table)
    .fetch_all(pool)
    .await
    .with_context(|| format!("reading the constraints and indexes of {table}"))?;
    let mentions = definitions.into_iter().filter(|it| it.1.contains(column));
    Ok(mentions
        .map(|(name, definition)| (name, quoted(&definition)))
        .collect())
}

async fn read(pool: &PgPool, sql: &'static str, name: &str) -> anyhow::Result<BTreeSet<String>> {
    let definition: String = sqlx::query_scalar(sql)
        .bind(name)
        .fetch_one(pool)
        .await
        .with_context(|| format!("reading the definition of {name}"))?;
    Ok(quoted(&definition))
}

/// The text between each pair of quotes. Enough for status names, which contain no quote.
fn quoted(definition: &str) -> BTreeSet<String> {
    let parts = definition.split('\'').skip(1).step_by(2);
    parts.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_the_quoted_parts() {
        let definition = "CHECK ((status = ANY (ARRAY['a'::text, 'b'::text])))";
        assert!(quoted(definition).iter().eq(["a", "b"]));
        assert!(quoted("CHECK ((amount > 0))").is_empty());
    }
}
