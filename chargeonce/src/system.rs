//! Which system and which services a command works on.

use std::path::PathBuf;

use anyhow::{bail, ensure};
use endpoints::{Endpoints, Service};

/// Services that publish events, in the order in which an order passes them.
pub(crate) const PUBLISHERS: [Service; 3] = [Service::Order, Service::Payment, Service::Fulfilment];
/// Services that consume events, and so may have parked messages.
pub(crate) const CONSUMERS: [Service; 4] = [
    Service::Order,
    Service::Payment,
    Service::Fulfilment,
    Service::Receipt,
];

/// How to find the system.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct SystemArgs {
    /// State directory of a running `lab up` [default: see `chargeonce --help`].
    #[arg(long, value_name = "DIR", global = true)]
    state_dir: Option<PathBuf>,
}

impl SystemArgs {
    pub(crate) fn find(&self) -> anyhow::Result<Endpoints> {
        Endpoints::find(self.state_dir.as_deref())
    }

    /// The base URL of one service's operator listener: the one given, or the system's.
    pub(crate) fn operator_url(
        &self,
        service: Service,
        url: Option<&str>,
    ) -> anyhow::Result<String> {
        match url {
            Some(url) => Ok(url.trim_end_matches('/').to_owned()),
            None => operator_url(&self.find()?, service),
        }
    }

    /// The services to call with the URLs of their operator listeners: `only` one of them, or all.
    pub(crate) fn targets(
        &self,
        all: &[Service],
        only: Option<Service>,
        url: Option<&str>,
    ) -> anyhow::Result<Vec<(Service, String)>> {
        match (only, url) {
            (Some(service), url) => Ok(vec![(service, self.operator_url(service, url)?)]),
            (None, Some(_)) => bail!("--url names one service: add --service"),
            (None, None) => {
                let system = self.find()?;
                let target =
                    |service: &Service| anyhow::Ok((*service, operator_url(&system, *service)?));
                all.iter().map(target).collect()
            }
        }
    }
}

fn operator_url(system: &Endpoints, service: Service) -> anyhow::Result<String> {
    let url = system.operator_url(service);
    ensure!(
        !url.is_empty(),
        "the description of the system has no operator listener of {service}: add it to \
         operator_urls, or use --url"
    );
    Ok(url.to_owned())
}

/// For clap: a service with an inbox.
pub(crate) fn parse_consumer(name: &str) -> Result<Service, String> {
    parse_one_of(&CONSUMERS, name)
}

/// For clap: a service with an outbox.
pub(crate) fn parse_publisher(name: &str) -> Result<Service, String> {
    parse_one_of(&PUBLISHERS, name)
}

/// For clap: any service.
pub(crate) fn parse_service(name: &str) -> Result<Service, String> {
    parse_one_of(&Service::ALL, name)
}

fn parse_one_of(services: &[Service], name: &str) -> Result<Service, String> {
    let found = services.iter().find(|service| service.name() == name);
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = services.iter().map(|service| service.name()).collect();
        format!("expected one of: {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_services_with_an_inbox_are_consumers() {
        assert_eq!(parse_consumer("payment"), Ok(Service::Payment));
        assert!(parse_consumer("psp").is_err());
    }

    #[test]
    fn only_services_with_an_outbox_are_publishers() {
        assert_eq!(parse_publisher("payment"), Ok(Service::Payment));
        let error = parse_publisher("receipt").unwrap_err();
        assert_eq!(error, "expected one of: order, payment, fulfilment");
    }

    #[test]
    fn url_without_service_is_an_error() {
        let system = SystemArgs::default();
        let url = Some("http://localhost:9082/");
        assert!(system.targets(&CONSUMERS, None, url).is_err());
        assert_eq!(
            system
                .targets(&CONSUMERS, Some(Service::Payment), url)
                .unwrap(),
            [(Service::Payment, "http://localhost:9082".to_owned())]
        );
    }
}
