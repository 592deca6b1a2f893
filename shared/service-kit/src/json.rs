//! JSON of requests: a parser for which every object names each member once, and the canonical text.
//!
//! JSON leaves the meaning of a repeated member open: one reader takes the first value, another the
//! last. A request that two components read differently must not be accepted.

use std::fmt::{self, Write as _};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Parses JSON of any shape. A repeated member, at any depth, is an error. The error names its place
/// and not its name, so that it repeats nothing of the text.
pub fn parse(text: &[u8]) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Unique.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// The canonical text of a JSON value: members sorted by the bytes of their names, no whitespace.
/// Stored fingerprints depend on it, so it must never change.
///
/// The order is not left to `serde_json`: its feature `preserve_order`, which any dependency may turn
/// on for the whole program, would keep members in the order in which the client sent them.
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (index, (name, value)) in members.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_leaf(&Value::from(name.as_str()), text);
                text.push(':');
                write_canonical(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_canonical(item, text);
            }
            text.push(']');
        }
        leaf => write_leaf(leaf, text),
    }
}

fn write_leaf(leaf: &Value, text: &mut String) {
    // Writing to a string cannot fail.
    let _ = write!(text, "{leaf}");
}

/// Builds a [`Value`], as `serde_json` does, from members that are unique.
struct Unique;

impl<'de> DeserializeSeed<'de> for Unique {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(Self)? {
            array.push(item);
        }
        Ok(array.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.contains_key(&name) {
                return Err(A::Error::custom("an object has the same member twice"));
            }
            object.insert(name, members.next_value_seed(Self)?);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_values_as_serde_json() {
        for text in [
            "null",
            " true ",
            "0",
            "-1",
            "18446744073709551615",
            "1.5e3",
            "\"a\\u00e9\\n\"",
            "[]",
            "{}",
            r#"{"b":[1,{"b":{"b":null}},{"b":"x"}],"a":-0.0}"#,
        ] {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse(text.as_bytes()).unwrap(), expected, "{text}");
        }
    }

    /// Passes with `--features serde_json/preserve_order` too.
    #[test]
    fn canonical_text_is_sorted_without_whitespace() {
        let text = r#" {"b": [1, {"z": 0, "y": "x y"}, -1.50], "é": 2, "a": null, "B": "\u00e9\n\"",
            "aa": {}, "": []} "#;
        let value = parse(text.as_bytes()).unwrap();
        let expected =
            r#"{"":[],"B":"é\n\"","a":null,"aa":{},"b":[1,{"y":"x y","z":0},-1.5],"é":2}"#;
        assert_eq!(canonical(&value), expected);
    }

    #[test]
    fn repeated_member_is_an_error_at_any_depth() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"b":2,"\u0061":3}"#,
            r#"[{"a":{"b":[{"c":1,"c":2}]}}]"#,
        ] {
            let error = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("same member twice at line 1"), "{error}");
        }
    }

    #[test]
    fn other_text_is_an_error_as_before() {
        for text in ["", "{", "[1,]", "nul", "{}{}", "{\"a\"}", "\"\\ud800\""] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        let deep = "[".repeat(100_000);
        assert!(parse(deep.as_bytes()).is_err());
    }
}
