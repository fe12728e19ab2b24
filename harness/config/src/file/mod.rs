//! The file form of suites: types and spans only.
//!
//! Reading verifies the shape; [`crate::check`] verifies the meaning. The doc comments of these types are the descriptions in
//! the JSON schema, so they address authors of suites.

mod check;
mod choice;
mod custom;
mod files;
mod forms;
mod gui;
mod image;
mod located;
mod script;
mod served;
mod source_text;
mod step_reward;
mod suite;
mod swe;
mod terminal;
mod toolcall;
mod verifier;
mod workspace;

pub(crate) use check::{CallFile, CallsMatchFile, CheckFile, ExpectedCallFile, StoredFile, Subject};
pub(crate) use choice::{ChoiceFile, InstancesFile, ListFields, NamedListFile};
pub(crate) use custom::{HttpEnvFile, InProcessFile, OpenenvFile, ProcessEnvFile};
pub(crate) use files::{FileEntry, FilesFile};
pub(crate) use gui::{
    GuiFile, PageElementFile, PageRewardFile, PatternFile, RequestRef, RespondFile, RouteFile, SiteFile,
};
pub(crate) use image::{ImageFields, ImageFile};
pub(crate) use located::{Entries, JsonObject, Located, Scalar, Text, present_or_default};
pub(crate) use script::{ActionFile, ScriptFile};
pub(crate) use served::{HttpFile, McpFile};
pub(crate) use source_text::SourceTextFile;
pub(crate) use step_reward::{EachFile, StepRewardFile};
pub(crate) use suite::{ActionFormatFile, DefaultsFile, EnvFile, SettingsRef, SuiteFile, TaskFile};
pub(crate) use swe::{NamesFile, SweFile};
pub(crate) use terminal::TerminalFile;
pub(crate) use toolcall::{ToolFile, ToolcallFile};
pub(crate) use verifier::{ApartFile, ArtifactFile, CollectFile, RewardSourceFile, VerifierFile};
pub(crate) use workspace::{NetworkFile, SandboxFile, WorkspaceRef};
