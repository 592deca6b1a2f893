//! The string literals in a schema's constraints and indexes. Tests compare them with the enum that
//! the code writes through.

use std::collections::BTreeSet;

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
