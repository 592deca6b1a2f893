//! Connections that can be cut: proxies between a service and what it calls.

use anyhow::Context;

use super::{System, SystemOptions};
use crate::fault_proxy::FaultProxy;
use endpoints::{Endpoints, Service};

/// Between payment and the provider.
pub const PAYMENT_PSP: &str = "payment-psp";

/// The proxies of a system; none unless its options ask for them.
#[derive(Debug, Default)]
pub(super) struct Network {
    payment_psp: Option<FaultProxy>,
}

impl Network {
    /// Starts the proxies, and points the services at them.
    pub(super) async fn start(
        options: &mut SystemOptions,
        endpoints: &Endpoints,
    ) -> anyhow::Result<Self> {
        if !options.network_cuts {
            return Ok(Self::default());
        }
        let proxy = FaultProxy::to(endpoints.url(Service::Psp)).await?;
        let url = proxy.url.trim_end_matches('/').to_owned();
        options.env.payment.push(("PSP_URL".to_owned(), url));
        Ok(Self {
            payment_psp: Some(proxy),
        })
    }
}

impl System {
    /// The connections that can be cut.
    pub fn cuts(&self) -> &'static [&'static str] {
        match self.network.payment_psp {
            Some(_) => &[PAYMENT_PSP],
            None => &[],
        }
    }

    /// Cuts a connection, or heals it. While it is cut, no byte passes and no error shows it.
    pub fn cut(&self, connection: &str, on: bool) -> anyhow::Result<()> {
        let proxy = self.network.payment_psp.as_ref();
        let proxy = proxy
            .filter(|_| connection == PAYMENT_PSP)
            .with_context(|| format!("the connection {connection} cannot be cut in this system"))?;
        match on {
            true => proxy.silence(),
            false => proxy.open(),
        }
        Ok(())
    }
}
