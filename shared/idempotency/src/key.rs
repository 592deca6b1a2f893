//! The client's key: an opaque name for one intended operation.

use std::fmt;

use thiserror::Error;

/// Longest key, in characters.
pub(crate) const LEN_MAX: usize = 255;

/// 1 to 255 visible ASCII characters. `"abc"` (a structured-field string, as in the IETF draft) and
/// `abc` (as most clients send it) are the same key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key(String);

/// Why the header is malformed. The texts are safe to send to the client.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum MalformedKey {
    #[error("the Idempotency-Key header is missing")]
    Missing,
    #[error("the Idempotency-Key header was sent more than once")]
    Repeated,
    #[error("the key must have 1 to {LEN_MAX} characters")]
    Length,
    #[error("the key must have only visible ASCII characters: no spaces, no control characters")]
    Character,
    #[error("the key has unbalanced quotes or a bad escape")]
    Quoting,
}

impl Key {
    /// Reads the value of the header, quoted or bare.
    pub fn parse(header: &str) -> Result<Self, MalformedKey> {
        let key = match header.strip_prefix('"') {
            Some(rest) => unquote(rest)?,
            None => header.to_owned(),
        };
        if !(1..=LEN_MAX).contains(&key.chars().count()) {
            return Err(MalformedKey::Length);
        }
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(MalformedKey::Character);
        }
        Ok(Self(key))
    }

    /// A key read from the database. It is not parsed again: `parse` removed the outer quotes
    /// before the key was stored. Any quotes in a stored key are part of it.
    pub fn from_stored(key: String) -> Self {
        Self(key)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads a structured-field string after its opening quote. `\"` and `\\` are the only escapes, and
/// nothing may follow the closing quote.
fn unquote(rest: &str) -> Result<String, MalformedKey> {
    let mut key = String::with_capacity(rest.len());
    let mut chars = rest.chars();
    loop {
        match chars.next() {
            Some('"') if chars.as_str().is_empty() => return Ok(key),
            Some('\\') => match chars.next() {
                Some(escaped @ ('"' | '\\')) => key.push(escaped),
                _ => return Err(MalformedKey::Quoting),
            },
            Some('"') | None => return Err(MalformedKey::Quoting),
            Some(plain) => key.push(plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quote(key: &str) -> String {
        format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""))
    }

    #[test]
    fn each_malformed_key_has_its_error() {
        let long = "k".repeat(LEN_MAX + 1);
        for (header, expected) in [
            ("", MalformedKey::Length),
            ("\"\"", MalformedKey::Length),
            (long.as_str(), MalformedKey::Length),
            ("two words", MalformedKey::Character),
            ("\"two words\"", MalformedKey::Character),
            ("schlüssel", MalformedKey::Character),
            ("tab\there", MalformedKey::Character),
            ("\"open", MalformedKey::Quoting),
            ("\"a\"b", MalformedKey::Quoting),
            ("\"a\";p=1", MalformedKey::Quoting),
            ("\"a\\n\"", MalformedKey::Quoting),
            ("\"", MalformedKey::Quoting),
        ] {
            assert_eq!(Key::parse(header), Err(expected), "{header:?}");
        }
    }

    proptest! {
        #[test]
        fn quoted_and_bare_values_are_the_same_key(key in "[!#-~][!-~]{0,254}") {
            let bare = Key::parse(&key).unwrap();
            prop_assert_eq!(bare.as_str(), &key);
            prop_assert_eq!(&Key::parse(&quote(&key)).unwrap(), &bare);
        }

        #[test]
        fn stored_key_round_trips(key in "[!-~]{1,255}") {
            let parsed = Key::parse(&quote(&key)).unwrap();
            prop_assert_eq!(Key::from_stored(parsed.as_str().to_owned()), parsed);
        }

        #[test]
        fn different_values_are_different_keys(a in "[!-~]{1,12}", b in "[!-~]{1,12}") {
            prop_assume!(a != b);
            prop_assert_ne!(Key::parse(&quote(&a)).unwrap(), Key::parse(&quote(&b)).unwrap());
        }

        #[test]
        fn any_input_is_a_valid_key_or_an_error(header in "\\PC{0,300}") {
            if let Ok(key) = Key::parse(&header) {
                prop_assert!((1..=LEN_MAX).contains(&key.as_str().len()));
                prop_assert!(key.as_str().bytes().all(|byte| byte.is_ascii_graphic()));
            }
        }
    }
}
