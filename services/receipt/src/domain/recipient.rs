//! The e-mail address of a customer.

use lettre::Address;
use lettre::address::AddressError;

/// Stands for the customer id in the template.
const PLACEHOLDER: &str = "{customer_id}";
/// The local part to use if the customer id is not a valid one.
const LOCAL_PART_DEFAULT: &str = "customer";
/// Longest local part of an address (RFC 5321).
const LOCAL_PART_LEN_MAX: usize = 64;

/// Turns customer ids into addresses by a template, because there is no directory of customers.
#[derive(Clone, Debug)]
pub struct Recipients {
    template: String,
}

impl Recipients {
    /// Fails if the template does not produce an address.
    pub fn new(template: &str) -> Result<Self, AddressError> {
        let recipients = Self {
            template: template.to_owned(),
        };
        recipients.of(LOCAL_PART_DEFAULT).parse::<Address>()?;
        Ok(recipients)
    }

    /// The customer's address. The id is untrusted text. An id that is not a plain local part is not
    /// repaired, because the result might be another customer's address.
    pub fn of(&self, customer_id: &str) -> String {
        let local = match is_local_part(customer_id) {
            true => customer_id,
            false => LOCAL_PART_DEFAULT,
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
    fn plain_customer_id_becomes_the_local_part() {
        for id in ["cust-88", "ann.lee", "A_1"] {
            assert_eq!(recipients().of(id), format!("{id}@customers.example"));
        }
    }

    #[test]
    fn unsafe_customer_id_never_reaches_an_address() {
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
    fn template_without_placeholder_is_one_address() {
        let one = Recipients::new("staging@example.com").unwrap();
        assert_eq!(one.of("cust-88"), "staging@example.com");
    }

    #[test]
    fn template_that_makes_no_address_is_an_error() {
        for template in ["", "{customer_id}", "{customer_id}@", "a b@example.com"] {
            assert!(Recipients::new(template).is_err(), "{template:?}");
        }
    }
}
