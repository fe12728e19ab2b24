//! Deserialises types from the [`Node`]s of a document.
//!
//! The parser is generic over its target type and would be compiled once for each. So its only target is [`Node`].
//!
//! I1. Scalars keep their source text: `007` and `1.10` keep their digits. I2. Every mismatch has the span of the innermost
//! value or key that caused it.

use std::fmt;

use serde::de::value::{StrDeserializer, UsizeDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, Expected, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::document::{Entry, Node, NodeValue};
use crate::source::{Source, Span};

/// By this name a type asks for a value with its place: a list of its start, its length and the value.
pub(crate) const LOCATED: &str = "clawrl::Located";

const WHOLE_NUMBER: &str = "a whole number";

/// Reads a type.
///
/// # Errors
/// The first mismatch.
pub(crate) fn decode<'de, T: Deserialize<'de>>(source: &'de Source, node: &'de Node) -> Result<T, Mismatch> {
    T::deserialize(Decoder { source, node })
}

/// A mismatch between a type and a value, with its span.
#[derive(Debug)]
pub(crate) struct Mismatch(Box<(Wrong, Option<Span>)>);

/// Kind of mismatch of a value or a key.
#[derive(Debug)]
pub(crate) enum Wrong {
    /// An unknown key, and the known ones.
    UnknownKey(String, &'static [&'static str]),
    /// A missing required key.
    MissingKey(&'static str),
    /// An unknown word, and the known ones.
    UnknownWord(String, &'static [&'static str]),
    /// A value of another type than this one, in words.
    Type(String),
    /// Anything else, in words.
    Other(String),
}

impl Mismatch {
    fn new(wrong: Wrong) -> Self {
        Self(Box::new((wrong, None)))
    }

    fn of_type(expected: &str) -> Self {
        Self::new(Wrong::Type(expected.to_owned()))
    }

    /// Adds this span if the mismatch has no span yet.
    fn at(mut self, span: Span) -> Self {
        self.0.1.get_or_insert(span);
        self
    }

    /// Mismatch and span.
    pub(crate) fn parts(&self) -> (&Wrong, Span) {
        (&self.0.0, self.0.1.unwrap_or_default())
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.0 {
            Wrong::UnknownKey(key, _) => write!(f, "unknown key `{key}`"),
            Wrong::MissingKey(key) => write!(f, "missing key `{key}`"),
            Wrong::UnknownWord(word, _) => write!(f, "unknown word `{word}`"),
            Wrong::Type(expected) => write!(f, "expected {expected}"),
            Wrong::Other(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Mismatch {}

impl Error for Mismatch {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(Wrong::Other(message.to_string()))
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::of_type(&expected.to_string())
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::of_type(&expected.to_string())
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::new(Wrong::UnknownWord(variant.to_owned(), expected))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::new(Wrong::UnknownKey(field.to_owned(), expected))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(Wrong::MissingKey(field))
    }
}

/// A value that is read.
#[derive(Clone, Copy)]
struct Decoder<'de> {
    source: &'de Source,
    node: &'de Node,
}

impl<'de> Decoder<'de> {
    fn of(self, node: &'de Node) -> Self {
        Self { node, ..self }
    }

    /// A scalar but null, as it stands in the file (I1).
    fn text(self) -> Option<&'de str> {
        match &self.node.value {
            NodeValue::Text(text) => Some(text),
            NodeValue::Bool(_) | NodeValue::Integer(_) | NodeValue::Number(_) => {
                Some(self.source.slice(self.node.span))
            }
            NodeValue::Null | NodeValue::List(_) | NodeValue::Map(_) => None,
        }
    }

    /// A whole number, also one in quotes. A document holds none beyond 63 bits as such.
    fn integer(self) -> Option<i128> {
        match &self.node.value {
            NodeValue::Integer(value) => Some((*value).into()),
            _ => self.text()?.parse().ok(),
        }
    }

    fn whole<T: TryFrom<i128>>(self) -> Result<T, Mismatch> {
        let value = self.integer().and_then(|value| T::try_from(value).ok());
        value.ok_or_else(|| Mismatch::of_type(WHOLE_NUMBER).at(self.node.span))
    }

    fn wrong<T>(self, expected: &str) -> Result<T, Mismatch> {
        Err(Mismatch::of_type(expected).at(self.node.span))
    }
}

/// Numbers by type: `whole` reads it, the visitor takes it.
macro_rules! whole_numbers {
    ($($method:ident $visit:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
            visitor.$visit(self.whole()?).map_err(|error: Mismatch| error.at(self.node.span))
        }
    )*};
}

impl<'de> Deserializer<'de> for Decoder<'de> {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let visited = match &self.node.value {
            NodeValue::Null => visitor.visit_unit(),
            NodeValue::Bool(value) => visitor.visit_bool(*value),
            NodeValue::Integer(value) => visitor.visit_i64(*value),
            NodeValue::Number(value) => match self.whole() {
                Ok(whole) => visitor.visit_u64(whole),
                Err(_) => visitor.visit_f64(*value),
            },
            NodeValue::Text(text) => visitor.visit_borrowed_str(text),
            NodeValue::List(nodes) => visitor.visit_seq(Items { of: self, nodes: nodes.iter() }),
            NodeValue::Map(entries) => {
                visitor.visit_map(Entries { of: self, entries: entries.iter(), value: None })
            }
        };
        visited.map_err(|error| error.at(self.node.span))
    }

    whole_numbers! {
        deserialize_i8 visit_i8
        deserialize_i16 visit_i16
        deserialize_i32 visit_i32
        deserialize_i64 visit_i64
        deserialize_u8 visit_u8
        deserialize_u16 visit_u16
        deserialize_u32 visit_u32
        deserialize_u64 visit_u64
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match &self.node.value {
            NodeValue::Bool(_) => self.deserialize_any(visitor),
            _ => self.wrong("`true` or `false`"),
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let value = match &self.node.value {
            NodeValue::Integer(value) => Some(*value as f64),
            NodeValue::Number(value) => Some(*value),
            NodeValue::Text(text) => text.parse().ok(),
            _ => None,
        };
        let Some(value) = value else { return self.wrong("a number") };
        visitor.visit_f64(value).map_err(|error: Mismatch| error.at(self.node.span))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let Some(text) = self.text() else { return self.wrong("text") };
        visitor.visit_borrowed_str(text).map_err(|error: Mismatch| error.at(self.node.span))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match &self.node.value {
            NodeValue::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match &self.node.value {
            NodeValue::List(_) => self.deserialize_any(visitor),
            // A key with nothing below it, such as `tasks:`.
            NodeValue::Null => visitor.visit_seq(Items { of: self, nodes: [].iter() }),
            _ => self.wrong("a list"),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Mismatch> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        match name {
            LOCATED => visitor.visit_seq(Located::new(self.node.span, self)),
            _ => self.deserialize_seq(visitor),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let entries: &[Entry] = match &self.node.value {
            NodeValue::Map(entries) => entries,
            NodeValue::Null => &[],
            _ => return self.wrong("a map of keys"),
        };
        let visited = visitor.visit_map(Entries { of: self, entries: entries.iter(), value: None });
        // A key is missing beside the first one.
        let beside = entries.first().map_or(self.node.span, |entry| entry.span);
        visited.map_err(|error| error.at(beside))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        let choice = match (&self.node.value, self.text()) {
            (NodeValue::Map(entries), _) if entries.len() == 1 => {
                let Entry { key, span, node } = &entries[0];
                Choice { word: key, span: *span, value: Some(self.of(node)) }
            }
            (_, Some(word)) => Choice { word, span: self.node.span, value: None },
            _ => return self.wrong("one of a few words"),
        };
        visitor.visit_enum(choice).map_err(|error| error.at(self.node.span))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! { char bytes byte_buf unit unit_struct identifier }
}

/// The start, the length and the value, in order; see [`LOCATED`].
struct Located<D> {
    numbers: std::array::IntoIter<usize, 2>,
    value: Option<D>,
}

impl<D> Located<D> {
    fn new(span: Span, value: D) -> Self {
        Self { numbers: [span.start, span.len].into_iter(), value: Some(value) }
    }
}

impl<'de, D: Deserializer<'de, Error = Mismatch>> SeqAccess<'de> for Located<D> {
    type Error = Mismatch;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Mismatch> {
        if let Some(number) = self.numbers.next() {
            return seed.deserialize(UsizeDeserializer::new(number)).map(Some);
        }
        self.value.take().map(|value| seed.deserialize(value)).transpose()
    }
}

/// Values of a list.
struct Items<'de> {
    of: Decoder<'de>,
    nodes: std::slice::Iter<'de, Node>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Mismatch;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Mismatch> {
        let Some(node) = self.nodes.next() else { return Ok(None) };
        seed.deserialize(self.of.of(node)).map(Some).map_err(|error| error.at(node.span))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.nodes.len())
    }
}

/// Keys and values of a map.
struct Entries<'de> {
    of: Decoder<'de>,
    entries: std::slice::Iter<'de, Entry>,
    value: Option<&'de Node>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Mismatch;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Mismatch> {
        let Some(entry) = self.entries.next() else { return Ok(None) };
        self.value = Some(&entry.node);
        seed.deserialize(Key(entry)).map(Some).map_err(|error| error.at(entry.span))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Mismatch> {
        let node = self.value.take().ok_or_else(|| Mismatch::custom("a value without its key"))?;
        seed.deserialize(self.of.of(node)).map_err(|error| error.at(node.span))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// A key that is read.
struct Key<'de>(&'de Entry);

impl<'de> Deserializer<'de> for Key<'de> {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_borrowed_str(&self.0.key)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        match name {
            LOCATED => visitor.visit_seq(Located::new(self.0.span, self)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        visitor.visit_enum(StrDeserializer::new(&self.0.key))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct seq tuple map struct identifier ignored_any
    }
}

/// A word out of a few, with what stands under it.
struct Choice<'de> {
    word: &'de str,
    span: Span,
    value: Option<Decoder<'de>>,
}

impl<'de> EnumAccess<'de> for Choice<'de> {
    type Error = Mismatch;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Mismatch> {
        let variant = seed.deserialize(StrDeserializer::<Mismatch>::new(self.word));
        Ok((variant.map_err(|error| error.at(self.span))?, self))
    }
}

impl<'de> VariantAccess<'de> for Choice<'de> {
    type Error = Mismatch;

    fn unit_variant(self) -> Result<(), Mismatch> {
        match self.value {
            None => Ok(()),
            Some(value) if value.node.value == NodeValue::Null => Ok(()),
            Some(value) => value.wrong("nothing"),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Mismatch> {
        let value = self.value.ok_or_else(|| Mismatch::of_type("a map of keys").at(self.span))?;
        seed.deserialize(value).map_err(|error| error.at(value.node.span))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Mismatch> {
        let value = self.value.ok_or_else(|| Mismatch::of_type("a list").at(self.span))?;
        value.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        let value = self.value.ok_or_else(|| Mismatch::of_type("a map of keys").at(self.span))?;
        value.deserialize_map(visitor)
    }
}
