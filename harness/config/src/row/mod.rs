//! A checked row of a suite: everything resolved but the templates.
//!
//! I1. Every string that may be a template is visited by [`Row::each_text`]: what it leaves out is never rendered.

mod check;
mod custom;
mod gui;
mod script;
mod served;
mod step_reward;
mod swe;
mod task;
mod terminal;
mod text;
mod toolcall;
mod verifier;

pub(crate) use check::{CallRow, CheckKind, CheckRow, CommandRow, Subject};
pub(crate) use custom::{CustomLinkRow, CustomRow};
pub(crate) use gui::{
    BodyRow, GuiRow, PageCheckRow, PatternKind, PatternRow, RequestRow, RouteAnswerRow, RouteRow, SiteRow,
};
pub(crate) use script::{ActionRow, ScriptRow};
pub(crate) use served::{McpRow, McpTransportRow, SourceRow};
pub(crate) use step_reward::{StepEventRow, StepRewardRow};
pub(crate) use swe::{NamesRow, SweRow};
pub(crate) use task::{EnvRow, Instances, Row, Settings};
pub(crate) use terminal::{
    FileRow, FileSource, FilesRow, ImageRow, ImageSourceRow, TerminalRow, WorkspaceRow,
};
pub(crate) use text::JsonText;
pub(crate) use toolcall::{ToolKindRow, ToolRow, ToolcallRow};
pub(crate) use verifier::{ApartRow, ArtifactRow, CollectRow, VerifierRow};
