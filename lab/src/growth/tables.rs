//! The tables that grow with the orders, and the rows of real orders in them.

use anyhow::{Context, ensure};
use endpoints::Service;
use sqlx::{AssertSqlSafe, PgConnection, Row as _};
use uuid::Uuid;

use super::template::{Field, Row, Template};

/// One table that has rows for each order.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) service: Service,
    pub(super) name: &'static str,
    /// The column by which the rows of an order are found.
    by: (&'static str, By),
    pub(super) kept: Kept,
}

#[derive(Debug, Clone, Copy)]
enum By {
    Order,
    Event,
    ChargeKey,
}

/// How long rows are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Always,
    /// For a window, until the reaper deletes them.
    Window,
    /// For a window, until the reaper drops their partition.
    Partition,
}

const fn table(service: Service, name: &'static str, by: (&'static str, By), kept: Kept) -> Table {
    Table {
        service,
        name,
        by,
        kept,
    }
}

pub(super) const TABLES: [Table; 15] = {
    use Kept::{Always, Partition, Window};
    use Service::{Fulfilment, Order, Payment, Psp, Receipt};
    const PROCESSED: (&str, (&str, By)) = ("processed_messages", ("message_id", By::Event));
    const OUTBOX: (&str, (&str, By)) = ("outbox", ("subject", By::Order));
    [
        table(Order, "orders", ("id", By::Order), Always),
        table(Order, "order_items", ("order_id", By::Order), Always),
        table(Payment, "payments", ("order_id", By::Order), Always),
        table(Fulfilment, "shipments", ("order_id", By::Order), Always),
        table(Receipt, "receipts", ("order_id", By::Order), Always),
        table(Psp, "charges", ("reference", By::Order), Always),
        table(Psp, "requests", ("key", By::ChargeKey), Always),
        table(
            Order,
            "idempotency_keys",
            ("resource_id", By::Order),
            Window,
        ),
        table(Order, PROCESSED.0, PROCESSED.1, Window),
        table(Payment, PROCESSED.0, PROCESSED.1, Window),
        table(Fulfilment, PROCESSED.0, PROCESSED.1, Window),
        table(Receipt, PROCESSED.0, PROCESSED.1, Window),
        table(Order, OUTBOX.0, OUTBOX.1, Partition),
        table(Payment, OUTBOX.0, OUTBOX.1, Partition),
        table(Fulfilment, OUTBOX.0, OUTBOX.1, Partition),
    ]
};

/// The rows of the templates in one table.
pub(super) struct TableRows {
    /// Of the columns that COPY writes.
    pub(super) columns: String,
    /// The rows of each template.
    pub(super) rows: Vec<Vec<Row>>,
}

impl Table {
    /// Reads the rows of the templates. Fails unless each has at least one.
    pub(super) async fn read(
        &self,
        connection: &mut PgConnection,
        templates: &mut [Template],
    ) -> anyhow::Result<TableRows> {
        let columns = columns(connection, self.name).await?;
        let listed: Vec<String> = columns.iter().map(Column::selected).collect();
        let (found_by, by) = self.by;
        let sql = format!(
            "select {} from {} where {found_by}::text = any($1)",
            listed.join(", "),
            self.name
        );
        let wanted: Vec<String> = templates.iter().flat_map(|it| by.values(it)).collect();
        let found = sqlx::query(AssertSqlSafe(sql))
            .bind(wanted)
            .fetch_all(connection)
            .await
            .with_context(|| format!("reading {}.{}", self.service, self.name))?;
        let mut rows: Vec<Vec<Row>> = templates.iter().map(|_| Vec::new()).collect();
        for row in found {
            let fields = columns.iter().enumerate();
            let fields = fields.map(|(index, column)| column.field(row.try_get(index)?));
            let fields: Vec<Field> = fields.collect::<anyhow::Result<_>>()?;
            let owner = templates.iter().position(|it| it.owns(&fields));
            if let Some(owner) = owner {
                let row = templates[owner].row(&fields);
                rows[owner].push(row);
            }
        }
        ensure!(
            rows.iter().all(|of_order| !of_order.is_empty()),
            "an order has no row in {}.{}",
            self.service,
            self.name
        );
        let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
        Ok(TableRows {
            columns: names.join(", "),
            rows,
        })
    }
}

impl By {
    fn values(self, template: &Template) -> Vec<String> {
        match self {
            By::Order => vec![template.order_id().to_string()],
            By::Event => template
                .event_ids()
                .map(|id: Uuid| id.to_string())
                .collect(),
            By::ChargeKey => vec![template.charge_key()],
        }
    }
}

#[derive(Debug, sqlx::FromRow)]
struct Column {
    name: String,
    data_type: String,
}

/// The columns that a row needs. Generated ones, and numbers from a sequence, come from Postgres.
async fn columns(connection: &mut PgConnection, table: &str) -> anyhow::Result<Vec<Column>> {
    let columns = sqlx::query_as(
        "select attname::text as name, format_type(atttypid, null) as data_type
         from pg_attribute left join pg_attrdef on adrelid = attrelid and adnum = attnum
         where attrelid = $1::regclass and attnum > 0 and not attisdropped and attgenerated = ''
           and pg_get_expr(adbin, adrelid) is distinct from format('nextval(''%s_ids''::regclass)', $1)
         order by attnum",
    )
    .bind(table)
    .fetch_all(connection)
    .await;
    columns.with_context(|| format!("reading the columns of {table}"))
}

impl Column {
    fn selected(&self) -> String {
        let Self { name, data_type } = self;
        match data_type.as_str() {
            "timestamp with time zone" => {
                format!("(extract(epoch from {name}) * 1000000)::bigint::text")
            }
            "bytea" => format!("encode({name}, 'hex')"),
            _ => format!("{name}::text"),
        }
    }

    fn field(&self, value: Option<String>) -> anyhow::Result<Field> {
        let Some(text) = value else {
            return Ok(Field::Null);
        };
        Ok(match self.data_type.as_str() {
            "timestamp with time zone" => Field::Time(text.parse()?),
            "bytea" => Field::Bytes(bytes(&text)?),
            _ => Field::Text(text),
        })
    }
}

fn bytes(hex: &str) -> anyhow::Result<Vec<u8>> {
    let pairs = (0..hex.len()).step_by(2);
    let bytes = pairs.map(|at| u8::from_str_radix(hex.get(at..at + 2).unwrap_or_default(), 16));
    bytes
        .collect::<Result<_, _>>()
        .context("hexadecimal digits")
}

/// Fails if a table has a row per order and is not listed here: the figures would leave its growth out.
pub(super) async fn check_complete(
    connection: &mut PgConnection,
    service: Service,
    orders: usize,
) -> anyhow::Result<()> {
    let tables: Vec<String> = sqlx::query_scalar(
        "select relname::text from pg_class
         where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition",
    )
    .fetch_all(&mut *connection)
    .await?;
    for name in tables {
        let sql = format!("select count(*) from \"{name}\"");
        let rows: i64 = sqlx::query_scalar(AssertSqlSafe(sql))
            .fetch_one(&mut *connection)
            .await?;
        let is_listed = TABLES
            .iter()
            .any(|it| it.service == service && it.name == name);
        ensure!(
            is_listed || rows < orders as i64,
            "{service}.{name} has {rows} rows after {orders} orders; `lab growth` does not fill it"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_from_pairs_of_digits() {
        assert_eq!(bytes("00ff7b").unwrap(), [0, 255, 123]);
        bytes("0").unwrap_err();
        bytes("zz").unwrap_err();
    }
}
