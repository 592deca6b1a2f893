//! Whose fault a failure is: a message's, which can be parked, or that of everything around it.

use service_kit::database;

/// Why a transaction came to nothing.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The handler does not get on with the message: after some tries it is parked.
    Message(anyhow::Error),
    /// Database, ledger, time: nothing that a message could be blamed for. Retried for ever.
    Surroundings(anyhow::Error),
}

/// SQLSTATEs that tell of a database which is not the one that the code was written for: a table that
/// is not migrated yet (class 42), a standby that takes no writes. They heal when somebody repairs the
/// database, and must not park every message until then.
const WRONG_DATABASE: [&str; 2] = ["42", "25006"];

impl Fault {
    /// Judges what a handler returned.
    pub(crate) fn of_handler(error: anyhow::Error) -> Self {
        let blameless = error
            .chain()
            .any(|cause| database::is_transient_cause(cause) || is_wrong_database(cause));
        match blameless {
            true => Self::Surroundings(error),
            false => Self::Message(error),
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Surroundings(error.into())
    }
}

fn is_wrong_database(cause: &(dyn std::error::Error + 'static)) -> bool {
    let code = cause
        .downcast_ref::<sqlx::Error>()
        .and_then(|error| error.as_database_error())
        .and_then(|error| error.code());
    code.is_some_and(|code| WRONG_DATABASE.iter().any(|it| code.starts_with(it)))
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_database_that_is_away_is_nobody_s_fault_however_deep_the_error_sits() {
        let error = Err::<(), _>(sqlx::Error::PoolTimedOut).context("storing");
        let fault = Fault::of_handler(error.context("handling").unwrap_err());
        assert!(matches!(fault, Fault::Surroundings(_)));
    }

    #[test]
    fn anything_else_that_a_handler_says_is_the_message_s_fault() {
        for error in [
            anyhow::anyhow!("told to fail"),
            sqlx::Error::RowNotFound.into(),
        ] {
            assert!(matches!(Fault::of_handler(error), Fault::Message(_)));
        }
    }
}
