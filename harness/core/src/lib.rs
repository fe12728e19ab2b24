//! Words and traits of ClawRL.
//!
//! Everything in the workspace may depend on this crate; it depends on none of ours, does no I/O,
//! starts no task and knows neither tokio, tch nor YAML. Each word has one meaning, given in
//! `harness/docs/concepts/glossary.md`.
//!
//! Units: time is [`std::time::Duration`], sizes carry `_bytes` or `_mib` in their names, seeds are `u64`.

mod action;
mod agent;
mod allowed_url;
mod blob;
mod cancel;
mod causes;
mod custom;
mod cut;
mod env;
mod fault;
mod gui;
mod hermes;
mod id;
mod ignored;
mod image;
mod json_text;
mod judge;
mod mcp;
mod message;
mod outcome;
mod placeholder;
mod plan;
mod policy;
mod printable;
mod progress;
mod public_address;
mod reasoning;
mod remote;
mod reply_parser;
mod seed;
mod sink;
mod spaced_json;
mod swe;
mod task;
mod text_source;
mod ticks;
mod toolcall;
mod usage;

pub use action::{ActionFormat, MalformedAction, parse_calls};
pub use agent::{AgentDoor, AgentLimits, AgentSpec};
pub use allowed_url::{AllowedUrl, is_localhost, requested_url};
pub use blob::{BlobError, BlobRef, BlobStore, MOST_BLOB_BYTES, MemoryBlobs};
pub use cancel::CancelToken;
pub use causes::spelled_out;
pub use custom::{CustomLink, CustomSpec, RewardTotal};
pub use cut::fit_texts;
pub use env::{BoxFuture, CloseReport, Env, EnvProvider, LeaseRequest, ProviderUsage, StepCtx, StepResult};
pub use fault::{Boundary, Fault, Limit, Retry};
pub use gui::{
    ElementPattern, GuiSpec, PageCheck, RequestPattern, Route, RouteAnswer, SITE_SUFFIX, Screenshots,
    SiteFolder, SiteSpec, StorageArea, TextPattern,
};
pub use hermes::{HERMES_OPENING, hermes_text};
pub use id::{AttemptId, Epoch, GroupId, RunId, SlotId, TaskId, TaskIndex};
pub use ignored::{Ignored, ignore_file};
pub use image::{
    ArtifactSpec, CollectSpec, ImageSource, ImageSpec, RewardSource, VerifierApart, VerifierSpec,
    absolute_problem, workdir_problem,
};
pub use json_text::{
    BYTE_ORDER_MARK, LoneSurrogate, lone_surrogates, python_as_json, read_json, read_python_json, utf8_text,
    without_lone_surrogates,
};
pub use judge::{Ballot, Judge, Matter, Question, SeenTurn, Verdict, Vote};
pub use mcp::{McpDecl, McpShare, McpTransport, offered_tool_name};
pub use message::{Message, Observation, Part, Role, ToolCall, ToolSpec};
pub use outcome::{
    CancelReason, CheckReport, Grade, Outcome, PhaseTimes, StopReason, Trajectory, Turn, TurnFlags,
};
pub use placeholder::{CommandPiece, PlaceholderError, command_pieces, fill_command, fill_text};
pub use plan::{
    Determinism, FORMAT_VERSION, PolicySpec, ResolvedLimits, RunPlan, SlotSpec, Split, SuiteRef, Timeouts,
};
pub use policy::{Action, FinishReason, Policy, PolicyRequest, SampledTokens};
pub use printable::{printable, printable_line};
pub use progress::Progress;
pub use public_address::is_public;
pub use remote::{
    BadBaseUrl, KeySource, MaxTokensField, Prices, RemoteDialect, RemotePatience, RemoteSampling, RemoteSpec,
    TokenSource, ToolUse, check_base_url,
};
pub use reply_parser::{Reads, ReplyParser, ReplyPart};
pub use seed::{SplitMix64, derive_seed, stable_hash};
pub use sink::{AttemptRecord, EpisodeSink, LeaseRecord, SinkError};
pub use spaced_json::spaced_json;
pub use swe::{LogParser, SweSpec, TestNames, TestScore, TestSpec};
pub use task::{
    Check, CheckSpec, EnvSpec, FixtureContent, FixtureFile, LINK_MODE, NetworkPolicy, RewardMap, SandboxKind,
    SandboxLimits, Script, Solver, TaskSpec, TerminalSpec, WorkspaceSpec, asked_by_pages,
};
pub use text_source::TextSource;
pub use ticks::ticks;
pub use toolcall::{
    AnswerCheck, CallPattern, ExpectedCall, StepEvent, StepReward, TextMatch, ToolDecl, ToolKind,
    ToolcallSpec, ValuePattern,
};
pub use usage::{Usage, UsageSource, UsageTotal};
