//! `chargeonce operator-token`: creates a token for an operator.

use endpoints::operator::Token;

/// Create a token for an operator: a person or a program that looks after the system.
///
/// Prints the token once, and the entry for the setting OPERATOR_TOKENS of each service. Give the token
/// to its owner, who sets CHARGEONCE_OPERATOR_TOKEN. The services get only the hash. Needs no running
/// system and stores nothing.
///
/// Exits with 0.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The name that the audit log shows: letters, digits and . _ @ -
    #[arg(value_parser = parse_name)]
    name: String,
}

pub(crate) fn run(args: &Args) {
    let token = Token::random();
    println!(
        "token for {} (shown only now):\n  {}",
        args.name,
        token.reveal()
    );
    println!(
        "entry for OPERATOR_TOKENS (several are separated by commas):\n  {}",
        token.setting(&args.name)
    );
}

/// For clap: the same rule as in the services.
fn parse_name(name: &str) -> Result<String, String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._@-".contains(c);
    match (1..=64).contains(&name.len()) && name.chars().all(is_part) {
        true => Ok(name.to_owned()),
        false => Err("expected 1 to 64 letters, digits or . _ @ -".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_must_fit_into_the_setting() {
        assert!(parse_name("ann@example.org").is_ok());
        for bad in ["", "a b", "a:b", "a,b", &"n".repeat(65)] {
            assert!(parse_name(bad).is_err(), "{bad}");
        }
    }
}
