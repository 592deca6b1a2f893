//! The flags of commands that use the services' operator listeners: which listener, which operator, and why.

use std::time::Duration;

use endpoints::Service;
use endpoints::operator::{OperatorClient, Token};

use crate::system::SystemArgs;

/// A reconciliation, a redrive or a republication may take minutes.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);
/// A read ends within the services' own limit for their store.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Commands that only read, from one service or from each of several.
#[derive(Debug, clap::Args)]
pub(crate) struct OperatorArgs {
    /// Base URL of the service's operator listener, instead of the one in the description of the system. Needs
    /// --service, if the command has that option.
    #[arg(long, global = true)]
    url: Option<String>,
    #[command(flatten)]
    access: AccessArgs,
}

/// The system, and the token for its operator listeners.
#[derive(Debug, clap::Args)]
pub(crate) struct AccessArgs {
    /// Your operator token. Prefer the environment variable: other users of this machine can read flags. If
    /// unset, the command uses the token in the description of the system, which the lab writes.
    #[arg(
        long,
        env = "CHARGEONCE_OPERATOR_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN",
        global = true
    )]
    operator_token: Option<Token>,
    #[command(flatten)]
    pub(crate) system: SystemArgs,
}

/// Commands that can change something.
#[derive(Debug, clap::Args)]
pub(crate) struct ChangeArgs {
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
    /// The reason for the audit log, 1 to 500 characters. Required for a change.
    #[arg(long, value_name = "TEXT", global = true)]
    reason: Option<String>,
}

impl ChangeArgs {
    /// A client that may change something.
    pub(crate) fn client(&self) -> anyhow::Result<OperatorClient> {
        let reason = self.required_reason()?;
        self.operator.client_for(Some(reason))
    }

    /// The reason, which a change needs. Checked here, so that the command fails before its first call.
    fn required_reason(&self) -> anyhow::Result<&str> {
        let reason = self.reason.as_deref().map(str::trim);
        reason.filter(|it| !it.is_empty()).ok_or_else(|| {
            anyhow::anyhow!("this command changes the system: add --reason for the audit log")
        })
    }
}

impl OperatorArgs {
    /// A client that only reads.
    pub(crate) fn client(&self) -> anyhow::Result<OperatorClient> {
        self.client_for(None)
    }

    /// The base URL of one service's operator listener.
    pub(crate) fn url_of(&self, service: Service) -> anyhow::Result<String> {
        let system = &self.access.system;
        system.operator_url(service, self.url.as_deref())
    }

    /// The services to call, with the URLs of their operator listeners: `only` one of them, or all.
    pub(crate) fn targets(
        &self,
        all: &[Service],
        only: Option<Service>,
    ) -> anyhow::Result<Vec<(Service, String)>> {
        let system = &self.access.system;
        system.targets(all, only, self.url.as_deref())
    }

    fn client_for(&self, reason: Option<&str>) -> anyhow::Result<OperatorClient> {
        self.access.client(reason, REQUEST_TIMEOUT)
    }
}

impl AccessArgs {
    /// A client that only reads, and does not wait long for a service that hangs.
    pub(crate) fn short_client(&self) -> anyhow::Result<OperatorClient> {
        self.client(None, READ_TIMEOUT)
    }

    fn client(&self, reason: Option<&str>, timeout: Duration) -> anyhow::Result<OperatorClient> {
        let token = match &self.operator_token {
            Some(token) => token.clone(),
            // Without a system, as with --url, the service explains that a token is missing.
            None => self
                .system
                .find()
                .map(|it| it.operator_token)
                .unwrap_or_default(),
        };
        OperatorClient::new(token, reason, timeout)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        change: ChangeArgs,
    }

    #[test]
    fn blank_reason_is_not_a_reason() {
        for (flags, expected) in [
            (&["x"][..], None),
            (&["x", "--reason", "  "], None),
            (&["x", "--reason", " ticket 1 "], Some("ticket 1")),
        ] {
            let program = Program::parse_from(flags);
            assert_eq!(program.change.required_reason().ok(), expected);
        }
    }

    #[test]
    fn debug_output_does_not_show_the_token() {
        let program = Program::parse_from(["x", "--operator-token", "secret-1"]);
        assert!(!format!("{program:?}").contains("secret-1"));
    }
}
