//! Files of a workspace, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::forms::two_forms;
use super::located::{Entries, Located, Scalar, Text};

two_forms! {
    /// Files of the workspace.
    enum FilesFile as "Files" { Folder(String), Map(Entries<Located<FileEntry>>) }
    expects "a folder beside the suite, or a map of paths to contents";
}

two_forms! {
    /// One file of the workspace.
    enum FileEntry as "FileEntry" { Content(Scalar), Fields(FileFields) }
    expects "the file's content, or a map with `content:` or `host:`";
    described "The file's content, a template, or a map that also gives its mode or takes a host file.";
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
