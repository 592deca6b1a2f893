//! The settings of the operator listener.

use std::net::SocketAddr;

use clap::Args;

use crate::tokens::{InvalidTokens, TokenList, Tokens};

/// Settings that a service flattens into its own.
///
/// Every service has a different default port. A service sets it with `mut_arg`, so clap must not require
/// the flag here.
#[derive(Clone, Debug, Args)]
#[group(id = "operators")]
pub struct Settings {
    /// Address of the listener for operators: everything under /admin. Port 0 picks a free port. The
    /// connection is not encrypted, so keep it on loopback or in a private network.
    #[arg(long, env = "OPERATOR_LISTEN", required = false)]
    pub operator_listen: SocketAddr,
    /// Who may use it: `name:hash` for each operator, separated by commas. `chargeonce operator-token
    /// NAME` prints a token and its line. If empty, every operator request is rejected.
    #[arg(
        long,
        env = "OPERATOR_TOKENS",
        default_value = "",
        hide_env_values = true,
        hide_default_value = true
    )]
    pub operator_tokens: TokenList,
}

impl Settings {
    /// Reads the tokens. An invalid list must end the program before it binds a port.
    pub fn tokens(&self) -> Result<Tokens, InvalidTokens> {
        Tokens::parse(&self.operator_tokens)
    }
}
