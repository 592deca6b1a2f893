//! The client's key: an opaque name for "this one intention".

use std::fmt;

use thiserror::Error;

/// Longest key, in characters.
pub(crate) const LEN_MAX: usize = 255;

/// 1 to 255 visible ASCII characters. `"abc"` (a structured-field string, as the standard
/// draft has it) and `abc` (as most clients send it) are the same key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key(String);

#[derive(Debug, Error, PartialEq, Eq)]
pub enum MalformedKey {
    #[error("the Idempotency-Key header is missing")]
    Missing,
    #[error("the Idempotency-Key header was sent more than once")]
    Repeated,
    #[error("a key has 1 to {LEN_MAX} characters")]
    Length,
    #[error("a key has only visible ASCII characters: no spaces, no control characters")]
    Character,
    #[error("the quoted key does not end where its quotes do")]
    Quoting,
}

impl Key {
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

    /// A key that was parsed once and stored. What it may have had of quotes then is gone, so that
    /// quotes that it has now are its own.
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

/// The inside of a structured-field string whose opening quote is gone: `\"` and `\\` are the only
/// escapes, and nothing may follow the closing quote.
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
    fn malformed_keys_are_told_apart() {
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
        fn a_quoted_and_a_bare_value_mean_the_same_key(key in "[!#-~][!-~]{0,254}") {
            let bare = Key::parse(&key).unwrap();
            prop_assert_eq!(bare.as_str(), &key);
            prop_assert_eq!(&Key::parse(&quote(&key)).unwrap(), &bare);
        }

        #[test]
        fn a_stored_key_is_the_key_that_it_was(key in "[!-~]{1,255}") {
            let parsed = Key::parse(&quote(&key)).unwrap();
            prop_assert_eq!(Key::from_stored(parsed.as_str().to_owned()), parsed);
        }

        #[test]
        fn two_different_values_are_never_the_same_key(a in "[!-~]{1,12}", b in "[!-~]{1,12}") {
            prop_assume!(a != b);
            prop_assert_ne!(Key::parse(&quote(&a)).unwrap(), Key::parse(&quote(&b)).unwrap());
        }

        #[test]
        fn no_input_makes_the_parser_panic_or_accept_a_bad_key(header in "\\PC{0,300}") {
            if let Ok(key) = Key::parse(&header) {
                prop_assert!((1..=LEN_MAX).contains(&key.as_str().len()));
                prop_assert!(key.as_str().bytes().all(|byte| byte.is_ascii_graphic()));
            }
        }
    }
}
