//! The schema names the same statuses as the enum that the code writes through.

use fulfilment::domain::{Decision, Status};
use testkit::postgres::literals;

use crate::harness::Harness;

#[tokio::test]
async fn schema_names_every_shipment_status() {
    let harness = Harness::create(&[]).await;
    let mut statuses = Status::ALL.map(Status::as_str);
    statuses.sort_unstable();
    let check = literals::of_constraint(&harness.pool, "shipments_status_check").await;
    assert!(check.unwrap().iter().eq(statuses));

    let default: String = sqlx::query_scalar(
        "select column_default from information_schema.columns
         where table_name = 'shipments' and column_name = 'status'",
    )
    .fetch_one(&harness.pool)
    .await
    .unwrap();
    assert_eq!(default, format!("'{}'::text", Status::Paid.as_str()));
}

#[tokio::test]
async fn schema_requires_a_reason_for_every_rejection() {
    let harness = Harness::create(&[]).await;
    let rejections = [Status::Cancelled, Status::Rejected].map(Status::as_str);
    let check = literals::of_constraint(&harness.pool, "rejection_has_reason").await;
    assert!(check.unwrap().iter().eq(rejections));
    let reasons = Decision::ALL.map(Decision::rejection_reason);
    assert_eq!(reasons.iter().flatten().count(), rejections.len());
}
