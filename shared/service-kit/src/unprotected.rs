//! Programs that are built with the feature `unprotected`: without idempotency keys for new orders, without outbox,
//! without processed messages and without leases. `lab bench` measures what these cost. Such a program loses orders and charges them twice,
//! so it does not start unless [`SETTING`] says that it is meant.

use anyhow::ensure;

/// Whether this program is built without its protection. All crates of one program ask this constant, so that none of
/// them can be protected while another is not.
pub const UNPROTECTED: bool = cfg!(feature = "unprotected");

/// The environment variable that lets an unprotected program start, if its value is [`MEANT`]. Only `lab bench` sets it.
pub const SETTING: &str = "RUN_UNPROTECTED";

/// The value of [`SETTING`].
pub const MEANT: &str = "true";

/// deploy/refuse-unprotected.sh looks for this text in the programs of an image.
#[cfg(feature = "unprotected")]
const WARNING: &str = "program runs without keys, outbox, processed messages and leases: it can lose orders or charge them twice";

#[cfg(all(feature = "unprotected", feature = "crash-points"))]
compile_error!(
    "crash points test what the feature `unprotected` leaves out: build with one of the two features"
);

/// Fails if the program is unprotected and that is not meant.
pub(crate) fn check(unprotected: bool, setting: Option<&str>) -> anyhow::Result<()> {
    ensure!(
        !unprotected || setting == Some(MEANT),
        "this program is built with the feature `unprotected` and can lose orders or charge them twice: build it without \
         the feature, or set {SETTING}={MEANT} to measure it as `lab bench` does"
    );
    Ok(())
}

/// [`check`] for this program. One that may start says in its log what it lacks.
pub(crate) fn check_this_program() -> anyhow::Result<()> {
    check(UNPROTECTED, std::env::var(SETTING).ok().as_deref())?;
    #[cfg(feature = "unprotected")]
    tracing::warn!("{WARNING}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unprotected_program_starts_only_if_that_is_meant() {
        for setting in [None, Some(""), Some("false"), Some("1")] {
            let error = check(true, setting).unwrap_err().to_string();
            assert!(error.contains(SETTING), "{error}");
            check(false, setting).unwrap();
        }
        check(true, Some(MEANT)).unwrap();
    }

    #[test]
    fn tests_run_on_protected_programs() {
        check_this_program().unwrap();
    }
}
