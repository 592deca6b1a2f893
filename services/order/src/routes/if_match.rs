//! The `If-Match` header: change the order only if it is at a version that the client has seen.

use axum::http::{HeaderMap, header};

use crate::routes::{Error, view};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum IfMatch {
    /// No condition, or one that every order meets: `*`.
    Any,
    /// Entity tags with their quotes. Weak tags are left out: a change needs a strong comparison,
    /// which a weak tag never passes.
    Strong(Vec<Vec<u8>>),
}

impl IfMatch {
    pub(super) fn read(headers: &HeaderMap) -> Result<Self, Error> {
        let mut lines = headers.get_all(header::IF_MATCH).iter().peekable();
        if lines.peek().is_none() {
            return Ok(Self::Any);
        }
        // Several header lines form one list.
        let lines: Vec<&[u8]> = lines.map(|line| line.as_bytes()).collect();
        let list = lines.join(&b","[..]);
        if list.trim_ascii() == b"*" {
            return Ok(Self::Any);
        }
        parse(&list).map(Self::Strong).ok_or(Error::IfMatch)
    }

    pub(super) fn holds(&self, version: i32) -> bool {
        match self {
            Self::Any => true,
            Self::Strong(tags) => {
                let etag = view::etag(version);
                tags.iter().any(|tag| tag == etag.as_bytes())
            }
        }
    }
}

/// The strong tags of a list; `None` if the list is malformed. A tag may contain commas.
fn parse(list: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut strong = Vec::new();
    let mut found = false;
    let mut rest = skip_empty(list);
    while !rest.is_empty() {
        let opaque = rest.strip_prefix(b"W/").unwrap_or(rest);
        let is_weak = opaque.len() < rest.len();
        let inside = opaque.strip_prefix(b"\"")?;
        let length = inside.iter().position(|byte| *byte == b'"')?;
        if !inside[..length].iter().all(|byte| is_tag_byte(*byte)) {
            return None;
        }
        // The opaque part and its two quotes.
        let (tag, after) = opaque.split_at(length + 2);
        if !is_weak {
            strong.push(tag.to_vec());
        }
        found = true;
        let after = after.trim_ascii_start();
        if !after.is_empty() && !after.starts_with(b",") {
            return None;
        }
        rest = skip_empty(after);
    }
    found.then_some(strong)
}

/// A list may have empty elements.
fn skip_empty(list: &[u8]) -> &[u8] {
    let is_filler = |byte: &u8| matches!(byte, b',' | b' ' | b'\t');
    let start = list.iter().position(|byte| !is_filler(byte));
    &list[start.unwrap_or(list.len())..]
}

fn is_tag_byte(byte: u8) -> bool {
    byte == 0x21 || (0x23..=0x7e).contains(&byte) || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn read(lines: &[&'static str]) -> Option<IfMatch> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::IF_MATCH, HeaderValue::from_static(line));
        }
        IfMatch::read(&headers).ok()
    }

    #[test]
    fn condition_holds_if_a_strong_tag_names_the_version() {
        for (lines, holds) in [
            (&[][..], true),
            (&["*"], true),
            (&[" * "], true),
            (&["\"3\""], true),
            (&["\"1\", \"3\""], true),
            (&["\"1\",\"3\",W/\"4\""], true),
            (&["\"1\"", "\"3\""], true),
            (&[", ,\"3\" ,"], true),
            (&["\"a,\\b\", \"3\""], true),
            (&["\"1\""], false),
            (&["W/\"3\""], false),
            (&["\"33\""], false),
            (&["\"\""], false),
            (&["\"1,3\""], false),
        ] {
            assert_eq!(read(lines).unwrap().holds(3), holds, "{lines:?}");
        }
    }

    #[test]
    fn malformed_lists_are_rejected() {
        for line in [
            "",
            ",",
            "3",
            "\"3",
            "3\"",
            "w/\"3\"",
            "W/3",
            "W /\"3\"",
            "\"1\" \"3\"",
            "\"1\"3",
            "\"3\", *",
            "**",
            "\"a b\"",
            "\"3\";q=1",
        ] {
            assert_eq!(read(&[line]), None, "{line:?}");
        }
    }
}
