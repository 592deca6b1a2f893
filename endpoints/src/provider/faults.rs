//! Arms and clears the mock provider's faults.

use std::time::Duration;

use anyhow::Context;
use reqwest::Method;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::operator::OperatorClient;
use crate::{Endpoints, Service};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

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

/// The faults of a mock provider, over its operator listener.
pub struct Faults {
    operator: OperatorClient,
    url: String,
}

impl Faults {
    /// `reason` goes to the provider's audit log.
    pub fn of(system: &Endpoints, reason: &str) -> anyhow::Result<Self> {
        Ok(Self {
            operator: system.operator(reason, REQUEST_TIMEOUT)?,
            url: format!("{}/admin/faults", system.operator_url(Service::Psp)),
        })
    }

    /// Arms a fault.
    pub async fn arm(&self, fault: &Fault) -> anyhow::Result<()> {
        let body = serde_json::to_value(fault)?;
        self.operator
            .send(Method::POST, &self.url, Some(&body))
            .await
            .context("arming a fault")?;
        Ok(())
    }

    /// Clears every armed fault.
    pub async fn clear(&self) -> anyhow::Result<()> {
        self.operator
            .send(Method::DELETE, &self.url, None)
            .await
            .context("clearing faults")?;
        Ok(())
    }

    /// Clears the faults that are armed for one order, and no others.
    pub async fn clear_for(&self, order: Uuid) -> anyhow::Result<()> {
        let armed = self.operator.call(Method::GET, &self.url, None).await?;
        let armed: ArmedFaults = serde_json::from_value(armed).context("reading the faults")?;
        let reference = Some(order.to_string());
        for fault in armed.data.iter().filter(|it| it.reference == reference) {
            let url = format!("{}/{}", self.url, fault.id);
            self.operator.send(Method::DELETE, &url, None).await?;
        }
        Ok(())
    }
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
