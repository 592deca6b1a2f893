//! The merchant's own name for a purchase, unique per principal.

use std::ops::Deref;

use thiserror::Error;

/// 1 to 128 characters, none of them a control character: a control character would break log lines,
/// and Postgres stores no NUL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "reference must have 1 to {} characters and no control characters",
    Reference::LEN_MAX
)]
pub struct InvalidReference;

impl Reference {
    /// Longest reference, in characters.
    pub const LEN_MAX: usize = 128;

    pub fn parse(reference: impl Into<String>) -> Result<Self, InvalidReference> {
        let reference = reference.into();
        let length = reference.chars().count();
        let has_control = reference.chars().any(char::is_control);
        match !has_control && (1..=Self::LEN_MAX).contains(&length) {
            true => Ok(Self(reference)),
            false => Err(InvalidReference),
        }
    }
}

impl Deref for Reference {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_text_without_control_characters_is_accepted() {
        let longest = "é".repeat(Reference::LEN_MAX);
        for text in ["cart-4711", " ", "Rechnung 4711 é", &longest] {
            assert_eq!(&*Reference::parse(text).unwrap(), text);
        }
        for text in ["", "a\u{0}b", "a\nb", &format!("{longest}é")] {
            assert_eq!(Reference::parse(text), Err(InvalidReference), "{text:?}");
        }
    }
}
