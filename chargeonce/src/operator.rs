//! Who uses the command, and why: the token and the reason for the services' operator listeners.

use std::time::Duration;

use endpoints::operator::{OperatorClient, Token};

use crate::system::SystemArgs;

/// A reconciliation, a redrive or a republication may take minutes.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);
/// A read ends within the services' own limit for their store.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The token of commands that use operator listeners.
#[derive(Debug, clap::Args)]
pub(crate) struct TokenArgs {
    /// Your operator token. Better in the environment: other users of this machine can read flags. If
    /// unset, the token in the description of the system is used, which the lab writes.
    #[arg(
        long,
        env = "CHARGEONCE_OPERATOR_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN",
        global = true
    )]
    operator_token: Option<Token>,
}

/// The reason of commands that change something.
#[derive(Debug, clap::Args)]
pub(crate) struct ReasonArgs {
    /// Why, for the audit log: 1 to 500 characters. Required for a change.
    #[arg(long, value_name = "TEXT", global = true)]
    reason: Option<String>,
}

impl ReasonArgs {
    /// The reason, which a change needs. Checked here, so that the command fails before its first call.
    pub(crate) fn required(&self) -> anyhow::Result<&str> {
        let reason = self.reason.as_deref().map(str::trim);
        reason.filter(|it| !it.is_empty()).ok_or_else(|| {
            anyhow::anyhow!("this changes the system: say why with --reason, for the audit log")
        })
    }
}

impl TokenArgs {
    /// A client that sends the token, and the reason if there is one.
    pub(crate) fn client(
        &self,
        system: &SystemArgs,
        reason: Option<&str>,
    ) -> anyhow::Result<OperatorClient> {
        self.client_within(system, reason, REQUEST_TIMEOUT)
    }

    /// A client that only reads, and does not wait long for a service that hangs.
    pub(crate) fn short_client(&self, system: &SystemArgs) -> anyhow::Result<OperatorClient> {
        self.client_within(system, None, READ_TIMEOUT)
    }

    fn client_within(
        &self,
        system: &SystemArgs,
        reason: Option<&str>,
        timeout: Duration,
    ) -> anyhow::Result<OperatorClient> {
        let token = match &self.operator_token {
            Some(token) => token.clone(),
            // Without a system, as with --url, the service explains that a token is missing.
            None => system
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
        token: TokenArgs,
        #[command(flatten)]
        reason: ReasonArgs,
    }

    #[test]
    fn blank_reason_is_not_a_reason() {
        for (flags, expected) in [
            (&["x"][..], None),
            (&["x", "--reason", "  "], None),
            (&["x", "--reason", " ticket 1 "], Some("ticket 1")),
        ] {
            let program = Program::parse_from(flags);
            assert_eq!(program.reason.required().ok(), expected);
        }
    }

    #[test]
    fn debug_output_does_not_show_the_token() {
        let program = Program::parse_from(["x", "--operator-token", "secret-1"]);
        assert!(!format!("{program:?}").contains("secret-1"));
    }
}
