//! The size of every table, and of Kafka's log.

use std::collections::BTreeMap;

use anyhow::Context;
use endpoints::{Service, database};

use crate::bench::rig::Rig;

/// Bytes on disk.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Sizes {
    /// With indexes, as `database.table`. The partitions of a table count as one.
    pub(crate) tables: BTreeMap<String, f64>,
    pub(crate) kafka_bytes: Option<f64>,
}

pub(crate) async fn sizes(rig: &Rig) -> anyhow::Result<Sizes> {
    let mut tables = BTreeMap::new();
    for service in Service::ALL {
        let pool = database::connect(rig.system().database_url(service)).await?;
        let rows: Vec<(String, f64)> = sqlx::query_as(
            "select coalesce(parent.relname, pg_class.relname)::text,
                    sum(pg_total_relation_size(pg_class.oid))::float8
             from pg_class
             left join pg_inherits on inhrelid = pg_class.oid
             left join pg_class as parent on parent.oid = inhparent
             where pg_class.relkind = 'r' and pg_class.relnamespace = 'public'::regnamespace
             group by 1",
        )
        .fetch_all(&pool)
        .await
        .context("reading the sizes of the tables")?;
        pool.close().await;
        tables.extend(
            rows.into_iter()
                .map(|(table, bytes)| (format!("{service}.{table}"), bytes)),
        );
    }
    Ok(Sizes {
        tables,
        kafka_bytes: rig.system().topic_bytes().map(|bytes| bytes as f64),
    })
}

impl Sizes {
    /// Tables that did not grow are left out.
    pub(crate) fn since(&self, before: &Sizes) -> Self {
        let grown = self.tables.iter().filter_map(|(table, bytes)| {
            let then = before.tables.get(table).copied().unwrap_or_default();
            (*bytes > then).then(|| (table.clone(), bytes - then))
        });
        let kafka_bytes = self.kafka_bytes.zip(before.kafka_bytes);
        Self {
            tables: grown.collect(),
            kafka_bytes: kafka_bytes.map(|(now, then)| now - then),
        }
    }
}
