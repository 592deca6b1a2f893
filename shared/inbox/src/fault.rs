//! Classifies failures: a message that the handler rejects can be parked, a failure of the
//! infrastructure is retried.

use service_kit::database;

/// Why a transaction failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The handler rejected the message. After some tries it is parked.
    Message(anyhow::Error),
    /// The database failed or took too long. No message is the cause, so the batch is retried
    /// without limit.
    Infrastructure(anyhow::Error),
}

/// A handler's error that no message causes: this is not the database that it needs, and an operator must
/// repair it. The batch is retried until then, and nothing is parked.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{0}")]
pub struct WrongDatabase(pub &'static str);

/// SQLSTATE class of a database that does not match the code, such as a table that is not migrated yet.
/// An operator must repair the database. Until then these errors must not park every message.
const WRONG_DATABASE_CLASS: &str = "42";

impl Fault {
    /// Classifies an error that a handler returned.
    pub(crate) fn of_handler(error: anyhow::Error) -> Self {
        let is_infrastructure = error
            .chain()
            .any(|cause| database::is_transient_cause(cause) || is_wrong_database(cause));
        match is_infrastructure {
            true => Self::Infrastructure(error),
            false => Self::Message(error),
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Infrastructure(error.into())
    }
}

fn is_wrong_database(cause: &(dyn std::error::Error + 'static)) -> bool {
    if cause.is::<WrongDatabase>() {
        return true;
    }
    let code = cause
        .downcast_ref::<sqlx::Error>()
        .and_then(|error| error.as_database_error())
        .and_then(|error| error.code());
    code.is_some_and(|code| code.starts_with(WRONG_DATABASE_CLASS))
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn transient_database_error_is_infrastructure_at_any_depth() {
        let error = Err::<(), _>(sqlx::Error::PoolTimedOut).context("storing");
        let fault = Fault::of_handler(error.context("handling").unwrap_err());
        assert!(matches!(fault, Fault::Infrastructure(_)));
    }

    #[test]
    fn wrong_database_is_infrastructure_at_any_depth() {
        let error = Err::<(), _>(WrongDatabase("restored")).context("handling");
        let fault = Fault::of_handler(error.unwrap_err());
        assert!(matches!(fault, Fault::Infrastructure(_)));
    }

    #[test]
    fn other_handler_errors_are_the_fault_of_the_message() {
        for error in [
            anyhow::anyhow!("rejected by the handler"),
            sqlx::Error::RowNotFound.into(),
        ] {
            assert!(matches!(Fault::of_handler(error), Fault::Message(_)));
        }
    }
}
