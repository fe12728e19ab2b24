//! Files of a workspace, as written.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::located::{Entries, Located, Scalar, Text};

/// Files of the workspace.
#[derive(Debug, Clone)]
pub(crate) enum FilesFile {
    Folder(String),
    Map(Entries<Located<FileEntry>>),
}

/// One file of the workspace.
#[derive(Debug, Clone)]
pub(crate) enum FileEntry {
    Content(Scalar),
    Fields(FileFields),
}

/// A file with its mode.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FileWithMode")]
pub(crate) struct FileFields {
    /// The whole content, a template.
    pub(crate) content: Option<Text>,
    /// A file in the suite's folder, copied as it is.
    pub(crate) host: Option<Text>,
    /// Permission bits in octal, for example "0755". Default: "0644", or those of the host file.
    pub(crate) mode: Option<Text>,
}

impl<'de> Deserialize<'de> for FilesFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FilesVisitor;

        impl<'de> Visitor<'de> for FilesVisitor {
            type Value = FilesFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a folder beside the suite, or a map of paths to contents")
            }

            fn visit_str<E>(self, folder: &str) -> Result<Self::Value, E> {
                Ok(FilesFile::Folder(folder.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Deserialize::deserialize(MapAccessDeserializer::new(map)).map(FilesFile::Map)
            }
        }

        deserializer.deserialize_any(FilesVisitor)
    }
}

impl JsonSchema for FilesFile {
    fn schema_name() -> Cow<'static, str> {
        "Files".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "oneOf": [
            { "type": "string" },
            { "type": "object", "additionalProperties": generator.subschema_for::<FileEntry>() }
        ] })
    }
}

impl<'de> Deserialize<'de> for FileEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntryVisitor;

        impl<'de> Visitor<'de> for EntryVisitor {
            type Value = FileEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the file's content, or a map with `content:` or `host:`")
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(FileEntry::Content(Scalar::Text(text.to_owned())))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(FileEntry::Content(Scalar::Verbatim))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Ok(FileEntry::Content(Scalar::Verbatim))
            }

            fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
                Ok(FileEntry::Content(Scalar::Verbatim))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Ok(FileEntry::Content(Scalar::Verbatim))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Deserialize::deserialize(MapAccessDeserializer::new(map)).map(FileEntry::Fields)
            }
        }

        deserializer.deserialize_any(EntryVisitor)
    }
}

impl JsonSchema for FileEntry {
    fn schema_name() -> Cow<'static, str> {
        "FileEntry".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The file's content, a template, or a map that also gives its mode or takes a host file.",
            "oneOf": [
                { "type": ["string", "number", "boolean"] },
                generator.subschema_for::<FileFields>()
            ]
        })
    }
}
