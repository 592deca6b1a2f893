//! The demo operator, for tests of operator routes.

use std::time::Duration;

use endpoints::operator::{OperatorClient, Token};

pub use endpoints::operator::DEMO_NAME as NAME;

/// The reason that the client sends.
pub const REASON: &str = "a test";
/// No test waits so long on purpose.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The value of `OPERATOR_TOKENS` that admits the demo operator.
pub fn setting() -> String {
    Token::demo().setting(NAME)
}

/// A client that sends the demo operator's token and a reason.
pub fn client() -> anyhow::Result<OperatorClient> {
    OperatorClient::new(Token::demo(), Some(REASON), TIMEOUT)
}
