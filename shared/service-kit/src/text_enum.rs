//! Enums that a text column stores: the variants and their names are one list.

use thiserror::Error;

/// A text that names no variant.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown {kind} {name:?}")]
pub struct UnknownName {
    /// What the enum is, for example `order status`.
    pub kind: &'static str,
    pub name: String,
}

/// Defines an enum with `ALL`, `as_str`, `Display` and `FromStr` from one list of names.
///
/// ```
/// service_kit::text_enum! {
///     "light";
///     pub enum Light {
///         Green = "green",
///         /// Traffic stops.
///         Red = "red",
///     }
/// }
/// assert_eq!("red".parse(), Ok(Light::Red));
/// assert_eq!(Light::ALL.map(Light::as_str), ["green", "red"]);
/// let error = "blue".parse::<Light>().unwrap_err();
/// assert_eq!(error.to_string(), "unknown light \"blue\"");
/// ```
#[macro_export]
macro_rules! text_enum {
    (
        $kind:literal;
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $name {
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// The name as it is stored.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::text_enum::UnknownName;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                let found = Self::ALL.into_iter().find(|it| it.as_str() == name);
                found.ok_or_else(|| $crate::text_enum::UnknownName {
                    kind: $kind,
                    name: name.to_owned(),
                })
            }
        }
    };
}
