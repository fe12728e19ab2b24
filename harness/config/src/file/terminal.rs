//! Settings of a terminal environment, as written.

use std::borrow::Cow;
use std::fmt;

use clawrl_core::NetworkPolicy;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::image::ImageFile;
use super::located::{Entries, Located, Scalar, Text};
use super::verifier::VerifierFile;
use crate::bounds;

/// A shell on a pseudo-terminal.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Terminal")]
pub(crate) struct TerminalFile {
    /// Program in the sandbox. Default: bash.
    pub(crate) shell: Option<Text>,
    /// Files laid into the workspace before anything runs: a folder beside the suite, copied as it is, or a
    /// map of paths to contents.
    pub(crate) files: Option<Located<FilesFile>>,
    /// Commands run before the first observation. One that fails is a setup fault.
    pub(crate) setup: Option<Vec<Text>>,
    /// Environment variables. A task's own map replaces that of the defaults.
    pub(crate) vars: Option<Entries<Text>>,
    /// Columns of the terminal. Default: 80.
    #[schemars(range(min = bounds::MIN_SCREEN, max = bounds::MAX_SCREEN))]
    pub(crate) cols: Option<Located<i64>>,
    /// Rows of the terminal. Default: 24.
    #[schemars(range(min = bounds::MIN_SCREEN, max = bounds::MAX_SCREEN))]
    pub(crate) rows: Option<Located<i64>>,
    /// How long a silent program that waits for input is waited for before the step returns. Default: 500.
    #[schemars(range(min = 1, max = bounds::MAX_IDLE_MILLIS))]
    pub(crate) idle_millis: Option<Located<i64>>,
    /// Most characters of output that an observation shows. Default: 4000.
    #[schemars(range(min = bounds::MIN_OBSERVATION, max = bounds::MAX_OBSERVATION))]
    pub(crate) observation_chars: Option<Located<i64>>,
    /// Isolation. Default: bubblewrap. `container` needs a container engine; `none` runs on the host itself and warns.
    pub(crate) sandbox: Option<Located<SandboxFile>>,
    /// Memory of all processes together. Default: 256.
    #[schemars(range(min = bounds::MIN_MEMORY_MIB, max = bounds::MAX_MIB))]
    pub(crate) memory_mib: Option<Located<i64>>,
    /// Size of the workspace and, each, of /tmp and /dev/shm. Default: 64.
    #[schemars(range(min = 1, max = bounds::MAX_MIB))]
    pub(crate) disk_mib: Option<Located<i64>>,
    /// Processes and threads. Default: 128.
    #[schemars(range(min = bounds::MIN_PIDS, max = bounds::MAX_PIDS))]
    pub(crate) pids: Option<Located<i64>>,
    /// Hundredths of a CPU; 100 is one core. Default: 100.
    #[schemars(range(min = 1, max = bounds::MAX_CPU_PERCENT))]
    pub(crate) cpu_percent: Option<Located<i64>>,
    /// Network. Default: none. `host` is the host's own network, `public` the container engine's bridge to the world;
    /// both warn.
    pub(crate) network: Option<Located<NetworkFile>>,
    /// The root file system: the name of an image, or a map with `name`, `build` or `rootfs`. Default: the host's
    /// programs, read-only.
    pub(crate) image: Option<Located<ImageFile>>,
    /// A program that grades, instead of checks or beside them; then the score is its score times that of the checks.
    pub(crate) verifier: Option<Located<VerifierFile>>,
}

impl TerminalFile {
    /// This one, with what it leaves open taken from the defaults, key by key.
    pub(crate) fn or(self, defaults: &Self) -> Self {
        let below = defaults.clone();
        Self {
            shell: self.shell.or(below.shell),
            files: self.files.or(below.files),
            setup: self.setup.or(below.setup),
            vars: self.vars.or(below.vars),
            cols: self.cols.or(below.cols),
            rows: self.rows.or(below.rows),
            idle_millis: self.idle_millis.or(below.idle_millis),
            observation_chars: self.observation_chars.or(below.observation_chars),
            sandbox: self.sandbox.or(below.sandbox),
            memory_mib: self.memory_mib.or(below.memory_mib),
            disk_mib: self.disk_mib.or(below.disk_mib),
            pids: self.pids.or(below.pids),
            cpu_percent: self.cpu_percent.or(below.cpu_percent),
            network: self.network.or(below.network),
            image: self.image.or(below.image),
            verifier: self.verifier.or(below.verifier),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum SandboxFile {
    Bubblewrap,
    Container,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum NetworkFile {
    None,
    Host,
    Public,
}

impl From<NetworkFile> for NetworkPolicy {
    fn from(network: NetworkFile) -> Self {
        match network {
            NetworkFile::None => Self::None,
            NetworkFile::Host => Self::Host,
            NetworkFile::Public => Self::Public,
        }
    }
}

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
