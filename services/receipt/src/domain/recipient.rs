//! Who gets a receipt.

use lettre::Address;
use lettre::address::AddressError;

/// What stands for the customer in the template.
const PLACEHOLDER: &str = "{customer_id}";
/// Who gets what has no customer that could be written to.
const NOBODY_KNOWN: &str = "customer";
/// Longest local part of an address (RFC 5321).
const LOCAL_PART_LEN_MAX: usize = 64;

/// Turns customers into addresses by a template, in the place of a directory.
#[derive(Clone, Debug)]
pub struct Recipients {
    template: String,
}

impl Recipients {
    /// Fails if the template makes no address.
    pub fn new(template: &str) -> Result<Self, AddressError> {
        let recipients = Self {
            template: template.to_owned(),
        };
        recipients.of(NOBODY_KNOWN).parse::<Address>()?;
        Ok(recipients)
    }

    /// The customer's address. The id is a stranger's text: what is not plainly a local part is not
    /// mended, since the mended one may be another customer's.
    pub fn of(&self, customer_id: &str) -> String {
        let local = match is_local_part(customer_id) {
            true => customer_id,
            false => NOBODY_KNOWN,
        };
        self.template.replace(PLACEHOLDER, local)
    }
}

/// A dot-atom of letters, digits, `-` and `_`.
fn is_local_part(text: &str) -> bool {
    let is_atom = |atom: &str| {
        !atom.is_empty()
            && atom
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    text.len() <= LOCAL_PART_LEN_MAX && text.split('.').all(is_atom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipients() -> Recipients {
        Recipients::new("{customer_id}@customers.example").unwrap()
    }

    #[test]
    fn a_customer_with_a_plain_id_has_an_address_of_their_own() {
        for id in ["cust-88", "ann.lee", "A_1"] {
            assert_eq!(recipients().of(id), format!("{id}@customers.example"));
        }
    }

    #[test]
    fn an_id_that_is_no_local_part_never_reaches_an_address() {
        let long = "x".repeat(LOCAL_PART_LEN_MAX + 1);
        for id in [
            "",
            "a b",
            "a@evil.example",
            "a\r\nBcc: b@evil.example",
            "a>,<b",
            ".a",
            "a..b",
            "a.",
            "ünal",
            "\"a\"",
            "{customer_id}",
            &long,
        ] {
            assert_eq!(recipients().of(id), "customer@customers.example", "{id:?}");
        }
    }

    #[test]
    fn a_template_without_a_placeholder_sends_everything_to_one_address() {
        let one = Recipients::new("staging@example.com").unwrap();
        assert_eq!(one.of("cust-88"), "staging@example.com");
    }

    #[test]
    fn a_template_that_makes_no_address_is_refused() {
        for template in ["", "{customer_id}", "{customer_id}@", "a b@example.com"] {
            assert!(Recipients::new(template).is_err(), "{template:?}");
        }
    }
}
