//! This service's part of an order's timeline.

use events::Line;
use operators::{PartQuery, ReadPart};
use sqlx::PgConnection;
use steps::{Part, ROWS_MAX, Step};

use crate::store::timeline::{self as store, ShipmentRow, StockRow};

/// Reads the steps of one order.
#[derive(Clone)]
pub struct Reader {
    pub group: String,
}

impl ReadPart for Reader {
    async fn read(&self, connection: &mut PgConnection, query: &PartQuery) -> sqlx::Result<Part> {
        let mut part = Part::new("fulfilment", query.order_id);
        let shipment = store::shipment(connection, query.order_id).await?;
        let attempt = shipment.as_ref().map_or(1, |row| row.attempt);
        outbox::add_steps(connection, &mut part).await?;
        inbox::add_steps(connection, &self.group, attempt, &mut part).await?;
        if let Some(row) = shipment {
            let lines: Vec<Line> = serde_json::from_value(row.lines.clone()).unwrap_or_default();
            part.note_limit("lines", lines.len());
            let skus = lines.iter().take(ROWS_MAX as usize);
            let skus: Vec<String> = skus.map(|line| line.sku.clone()).collect();
            let stock = store::stock(connection, &skus).await?;
            part.steps.push(decision(&row, &lines, &stock));
            part.status = Some(row.status);
        }
        Ok(part)
    }
}

/// The row is the decision. One transaction inserts and decides it, so the row's last change is that
/// transaction, unless a rejection was announced again for a later attempt.
fn decision(row: &ShipmentRow, lines: &[Line], stock: &[StockRow]) -> Step {
    let lines = lines
        .iter()
        .map(|line| format!("{} × {}", line.quantity, line.sku));
    let lines: Vec<String> = lines.collect();
    let what = format!("shipment is {}", row.status);
    let mut step = Step::new(row.updated_at, "shipments", what)
        .commit(Some(row.commit.clone()))
        .fact("attempt", row.attempt)
        .fact("lines", lines.join(", "))
        .fact_if("reason", row.reason.as_ref());
    if row.created_at != row.updated_at {
        step = step.fact("first decided at", row.created_at);
    }
    for StockRow {
        sku,
        available,
        reserved,
    } in stock
    {
        let now = format!("{available} available, {reserved} reserved");
        step = step.fact(&format!("stock of {sku} now"), now);
    }
    step
}
