//! The operators that may call, each with the hash of a token.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq as _;
use thiserror::Error;

/// Maximum number of operators. Each request is compared with all of them.
pub const OPERATORS_MAX: usize = 100;
/// Longest name of an operator.
const NAME_LEN_MAX: usize = 64;
const HASH_LEN: usize = 32;

type Hash = [u8; HASH_LEN];

/// The setting as it was given. It is not parsed by clap, because clap repeats an invalid value on
/// standard error. The value may be a token that was pasted in place of its hash.
#[derive(Clone, Default)]
pub struct TokenList(String);

impl From<String> for TokenList {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for TokenList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TokenList(…)")
    }
}

/// The operators and the hashes of their tokens. Clones share them.
#[derive(Clone, Default)]
pub struct Tokens(Arc<[(Arc<str>, Hash)]>);

/// Why the setting is not a list of operators. Never contains a part of a token or a hash.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum InvalidTokens {
    #[error(
        "OPERATOR_TOKENS: entry {0} is not name:hash; `chargeonce operator-token NAME` prints one"
    )]
    Shape(usize),
    #[error(
        "OPERATOR_TOKENS: the name in entry {0} must have 1 to {NAME_LEN_MAX} letters, digits or . _ @ -"
    )]
    Name(usize),
    #[error(
        "OPERATOR_TOKENS: the hash of {0} is not a SHA-256 in 64 hexadecimal digits. Give the hash, \
         not the token; `chargeonce operator-token NAME` prints both"
    )]
    Hash(String),
    #[error("OPERATOR_TOKENS: {0} is listed twice; an audit row must name one person")]
    DuplicateName(String),
    #[error(
        "OPERATOR_TOKENS: {0} has the token of another operator; give each operator a different token"
    )]
    DuplicateToken(String),
    #[error("OPERATOR_TOKENS: more than {OPERATORS_MAX} operators")]
    TooMany,
}

impl Tokens {
    /// Parses `name:hash,…`. Empty entries are skipped, so that a list may end with a comma.
    pub fn parse(list: &TokenList) -> Result<Self, InvalidTokens> {
        let mut tokens: Vec<(Arc<str>, Hash)> = Vec::new();
        let (mut names, mut hashes) = (BTreeSet::new(), BTreeSet::new());
        let entries = list.0.split(',').map(str::trim);
        let entries = entries.filter(|entry| !entry.is_empty());
        for (index, entry) in entries.enumerate() {
            let number = index + 1;
            let (name, hash) = entry.split_once(':').ok_or(InvalidTokens::Shape(number))?;
            if !is_name(name) {
                return Err(InvalidTokens::Name(number));
            }
            let hash = read_hash(hash).ok_or_else(|| InvalidTokens::Hash(name.to_owned()))?;
            if !names.insert(name) {
                return Err(InvalidTokens::DuplicateName(name.to_owned()));
            }
            if !hashes.insert(hash) {
                return Err(InvalidTokens::DuplicateToken(name.to_owned()));
            }
            tokens.push((name.into(), hash));
        }
        if tokens.len() > OPERATORS_MAX {
            return Err(InvalidTokens::TooMany);
        }
        Ok(Self(tokens.into()))
    }

    /// Whether no operator is configured.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name of the operator with this token. Compares with every hash in full, so that the time of a
    /// response says nothing about a hash.
    pub(crate) fn name_of(&self, token: &str) -> Option<Arc<str>> {
        let given: Hash = Sha256::digest(token).into();
        let mut found = None;
        for (name, hash) in self.0.iter() {
            if bool::from(hash.ct_eq(&given)) {
                found = Some(name);
            }
        }
        found.cloned()
    }
}

/// Only the names.
impl fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|(name, _)| name);
        formatter.debug_list().entries(names).finish()
    }
}

fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._@-".contains(c);
    (1..=NAME_LEN_MAX).contains(&name.len()) && name.chars().all(is_part)
}

fn read_hash(text: &str) -> Option<Hash> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| {
            digit
                .to_digit(16)
                .and_then(|value| u8::try_from(value).ok())
        })
        .collect();
    let digits = digits.filter(|digits| digits.len() == 2 * HASH_LEN)?;
    let (pairs, _) = digits.as_chunks::<2>();
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of "abc", the first test vector of FIPS 180-2.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn parse(text: &str) -> Result<Tokens, InvalidTokens> {
        Tokens::parse(&TokenList::from(text.to_owned()))
    }

    fn other(digit: char) -> String {
        digit.to_string().repeat(64)
    }

    #[test]
    fn token_names_its_operator() {
        let upper = ABC.to_uppercase();
        let tokens = parse(&format!("bob:{}, ann@example.org:{upper},", other('0'))).unwrap();
        assert_eq!(tokens.name_of("abc").as_deref(), Some("ann@example.org"));
        for wrong in ["", "ab", "abcd", ABC, "bob"] {
            assert_eq!(tokens.name_of(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn list_may_be_empty() {
        assert!(parse("").unwrap().is_empty());
        assert!(parse(" , ").unwrap().is_empty());
        assert_eq!(parse("").unwrap().name_of(""), None);
    }

    #[test]
    fn invalid_lists_are_rejected() {
        let (zero, one) = (other('0'), other('1'));
        let long = "n".repeat(NAME_LEN_MAX + 1);
        let many: Vec<String> = (0..=OPERATORS_MAX)
            .map(|it| format!("o{it}:{it:064x}"))
            .collect();
        for (text, expected) in [
            ("abc".to_owned(), InvalidTokens::Shape(1)),
            (format!("a:{zero},b"), InvalidTokens::Shape(2)),
            (format!(":{zero}"), InvalidTokens::Name(1)),
            (format!("a b:{zero}"), InvalidTokens::Name(1)),
            (format!("{long}:{zero}"), InvalidTokens::Name(1)),
            ("a:secret".to_owned(), InvalidTokens::Hash("a".to_owned())),
            (format!("a:{zero}0"), InvalidTokens::Hash("a".to_owned())),
            (
                format!("a:{}", other('g')),
                InvalidTokens::Hash("a".to_owned()),
            ),
            (
                format!("a:{zero},a:{one}"),
                InvalidTokens::DuplicateName("a".to_owned()),
            ),
            (
                format!("a:{zero},b:{zero}"),
                InvalidTokens::DuplicateToken("b".to_owned()),
            ),
            (many.join(","), InvalidTokens::TooMany),
        ] {
            assert_eq!(parse(&text).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn debug_output_has_no_token_and_no_hash() {
        let list = TokenList::from(format!("ann:{ABC}"));
        let tokens = Tokens::parse(&list).unwrap();
        assert_eq!(format!("{list:?}{tokens:?}"), r#"TokenList(…)["ann"]"#);
        let pasted = parse("ann:my-secret").unwrap_err();
        assert!(!format!("{pasted} {pasted:?}").contains("my-secret"));
    }
}
