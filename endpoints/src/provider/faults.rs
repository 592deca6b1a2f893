//! Arms and clears the mock provider's faults.

use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::client::http;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// One fault. `reference` limits it to one order; without it the fault applies to the next request.
#[derive(Debug, Serialize)]
pub struct Fault {
    pub point: &'static str,
    pub action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

/// Arms a fault at the provider.
pub async fn arm_fault(psp_url: &str, fault: &Fault) -> anyhow::Result<()> {
    let response = http(REQUEST_TIMEOUT)?
        .post(faults_url(psp_url))
        .json(fault)
        .send()
        .await
        .context("POST /admin/faults")?;
    if !response.status().is_success() {
        bail!(
            "the provider rejected the fault: {} {}",
            response.status(),
            response.text().await.unwrap_or_default()
        );
    }
    Ok(())
}

/// Clears every armed fault.
pub async fn clear_faults(psp_url: &str) -> anyhow::Result<()> {
    http(REQUEST_TIMEOUT)?
        .delete(faults_url(psp_url))
        .send()
        .await
        .and_then(reqwest::Response::error_for_status)
        .context("DELETE /admin/faults")?;
    Ok(())
}

/// Clears the faults that are armed for one order, and no others.
pub async fn clear_faults_for(psp_url: &str, order: Uuid) -> anyhow::Result<()> {
    let http = http(REQUEST_TIMEOUT)?;
    let url = faults_url(psp_url);
    let armed: ArmedFaults = http
        .get(&url)
        .send()
        .await
        .context("GET /admin/faults")?
        .json()
        .await?;
    let reference = Some(order.to_string());
    for fault in armed.data.iter().filter(|it| it.reference == reference) {
        http.delete(format!("{url}/{}", fault.id))
            .send()
            .await
            .context("DELETE /admin/faults/{id}")?;
    }
    Ok(())
}

fn faults_url(psp_url: &str) -> String {
    format!("{psp_url}/admin/faults")
}

/// The body of `GET /admin/faults`.
#[derive(Deserialize)]
struct ArmedFaults {
    data: Vec<ArmedFault>,
}

#[derive(Deserialize)]
struct ArmedFault {
    id: u64,
    reference: Option<String>,
}
