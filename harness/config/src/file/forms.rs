//! Settings with a short form and a map: `image: debian:12`, or `image: { build: fixtures/x }`.

use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, SchemaGenerator};
use serde::de::value::{
    BoolDeserializer, F64Deserializer, I64Deserializer, MapAccessDeserializer, SeqAccessDeserializer,
    StrDeserializer, U64Deserializer,
};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};
use serde_json::{Value, json};

use super::located::Scalar;

/// The values that a short form takes.
pub(crate) trait ShortForm {
    /// Text.
    const TEXT: bool = false;
    /// Numbers and truth values.
    const SCALAR: bool = false;
    /// Lists.
    const LIST: bool = false;

    /// JSON schema of the short form.
    fn schema(generator: &mut SchemaGenerator) -> Value;
}

impl ShortForm for String {
    const TEXT: bool = true;

    fn schema(_: &mut SchemaGenerator) -> Value {
        json!({ "type": "string" })
    }
}

impl ShortForm for Scalar {
    const TEXT: bool = true;
    const SCALAR: bool = true;

    fn schema(_: &mut SchemaGenerator) -> Value {
        json!({ "type": ["string", "number", "boolean"] })
    }
}

impl<T: JsonSchema> ShortForm for Vec<T> {
    const LIST: bool = true;

    fn schema(generator: &mut SchemaGenerator) -> Value {
        generator.subschema_for::<Self>().to_value()
    }
}

/// One of the two.
pub(crate) enum Form<S, L> {
    Short(S),
    Long(L),
}

impl<'de, S: ShortForm + Deserialize<'de>, L: Deserialize<'de>> Form<S, L> {
    /// Reads either. `expected` says what there may be.
    pub(crate) fn read<D: Deserializer<'de>>(
        deserializer: D,
        expected: &'static str,
    ) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FormVisitor { expected, forms: PhantomData })
    }
}

struct FormVisitor<S, L> {
    expected: &'static str,
    forms: PhantomData<(S, L)>,
}

/// Values that a short form takes if a constant says so.
macro_rules! short {
    ($($method:ident $type:ty, $takes:ident, $unexpected:expr, $deserializer:ident;)*) => {$(
        fn $method<E: Error>(self, value: $type) -> Result<Self::Value, E> {
            match S::$takes {
                true => S::deserialize($deserializer::new(value)).map(Form::Short),
                false => Err(E::invalid_type($unexpected(value), &self)),
            }
        }
    )*};
}

impl<'de, S: ShortForm + Deserialize<'de>, L: Deserialize<'de>> Visitor<'de> for FormVisitor<S, L> {
    type Value = Form<S, L>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    short! {
        visit_str &str, TEXT, Unexpected::Str, StrDeserializer;
        visit_bool bool, SCALAR, Unexpected::Bool, BoolDeserializer;
        visit_i64 i64, SCALAR, Unexpected::Signed, I64Deserializer;
        visit_u64 u64, SCALAR, Unexpected::Unsigned, U64Deserializer;
        visit_f64 f64, SCALAR, Unexpected::Float, F64Deserializer;
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        match S::LIST {
            true => S::deserialize(SeqAccessDeserializer::new(seq)).map(Form::Short),
            false => Err(A::Error::invalid_type(Unexpected::Seq, &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        L::deserialize(MapAccessDeserializer::new(map)).map(Form::Long)
    }
}

/// Declares a setting with two forms: `enum NAME as "Name in the schema" { Short(..), Long(..) }`, words for errors and
/// optionally a description for the schema.
macro_rules! two_forms {
    (
        $(#[$meta:meta])*
        enum $name:ident as $schema:literal { $short:ident($short_type:ty), $long:ident($long_type:ty) }
        expects $expected:literal;
        $(described $description:literal;)?
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        pub(crate) enum $name {
            $short($short_type),
            $long($long_type),
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let form = $crate::file::forms::Form::<$short_type, $long_type>::read(deserializer, $expected);
                Ok(match form? {
                    $crate::file::forms::Form::Short(value) => Self::$short(value),
                    $crate::file::forms::Form::Long(value) => Self::$long(value),
                })
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $schema.into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    $("description": $description,)?
                    "oneOf": [
                        <$short_type as $crate::file::forms::ShortForm>::schema(generator),
                        generator.subschema_for::<$long_type>()
                    ]
                })
            }
        }
    };
}
pub(crate) use two_forms;

/// Declares the words of a setting, each of which stands for the variant of the same name.
macro_rules! words {
    ($(#[$meta:meta])* enum $name:ident for $target:ident { $($(#[$word_meta:meta])* $word:ident,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[schemars(inline)]
        pub(crate) enum $name {
            $($(#[$word_meta])* $word,)*
        }

        impl From<$name> for $target {
            fn from(word: $name) -> Self {
                match word {
                    $($name::$word => Self::$word,)*
                }
            }
        }
    };
}
pub(crate) use words;
