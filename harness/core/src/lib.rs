//! Types and traits shared by all crates of ClawRL.
//!
//! Every crate of the workspace may depend on this crate; it depends on no other, does no I/O,
//! starts no task and uses neither tokio, tch nor YAML. Each term has one meaning, defined in
//! `harness/docs/concepts/glossary.md`.
//!
//! Data (`task`, `plan`, `message`, `reply`, `outcome` and their parts) does not depend on the traits (`env`, `policy`,
//! `judge`, `sink`), and no modules import each other in a circle.
//!
//! Units: time is [`std::time::Duration`], sizes carry `_bytes` or `_mib` in their names, seeds are `u64`.

mod action;
mod allowed_url;
mod blob;
mod box_future;
mod cancel;
mod check;
mod custom;
mod cut;
mod env;
mod error_text;
mod fault;
mod guarded;
mod gui;
mod hermes;
mod hex;
mod id;
mod ignored;
mod image;
mod in_process;
mod json_text;
mod judge;
mod mcp;
mod message;
pub mod openai;
mod outcome;
mod placeholder;
mod plan;
mod policy;
mod policy_spec;
mod printable;
mod progress;
mod public_address;
mod reasoning;
mod remote;
mod reply;
mod reply_parser;
mod sandbox;
mod seed;
mod sink;
mod spaced_json;
mod swe;
mod task;
mod text_source;
mod ticks;
mod timeouts;
mod toolcall;
mod usage;
mod workspace;

pub use action::{ActionFormat, MalformedAction, parse_calls};
pub use allowed_url::{AllowedUrl, is_localhost, requested_url};
pub use blob::{BlobError, BlobRef, BlobStore, MAX_BLOB_BYTES, MemoryBlobs};
pub use box_future::BoxFuture;
pub use cancel::CancelToken;
pub use check::{Check, CheckSpec, RewardMap};
pub use custom::{CustomLink, CustomSpec, RewardTotal};
pub use cut::fit_texts;
pub use env::{CloseReport, Env, EnvProvider, LeaseRequest, ProviderUsage, StepCtx, StepResult};
pub use error_text::error_text;
pub use fault::{Boundary, Fault, Limit, Retry};
pub use guarded::{Guarded, Operations};
pub use gui::{
    ElementPattern, GuiSpec, PageCheck, RequestPattern, Route, RouteAnswer, SITE_SUFFIX, Screenshots,
    SiteFolder, SiteSpec, StorageArea, TextPattern,
};
pub use hermes::{HERMES_OPENING, hermes_text};
pub use hex::{hex, sha256_hex};
pub use id::{AttemptId, Epoch, GroupId, RunId, SlotId, TaskId, TaskIndex};
pub use ignored::{Ignored, ignore_file};
pub use image::{
    ArtifactSpec, CollectSpec, ImageSource, ImageSpec, RewardSource, VerifierApart, VerifierSpec,
    absolute_problem, workdir_problem,
};
pub use in_process::InProcessSpec;
pub use json_text::{
    BYTE_ORDER_MARK, LoneSurrogate, lone_surrogates, python_as_json, read_json, read_python_json, utf8_text,
    without_lone_surrogates,
};
pub use judge::{Judge, JudgeRequest, JudgeResponse, JudgeSubject, TurnContext, Vote, VoteValue};
pub use mcp::{McpDecl, McpShare, McpTransport, offered_tool_name};
pub use message::{Message, Observation, Part, Role, ToolCall, ToolSpec};
pub use outcome::{
    CancelReason, CheckReport, Grade, Outcome, PhaseTimes, StopReason, Trajectory, Turn, TurnFlags,
};
pub use placeholder::{CommandPiece, PlaceholderError, command_pieces, fill_command, fill_text};
pub use plan::{Determinism, FORMAT_VERSION, ResolvedLimits, RunPlan, SlotSpec, Split, SuiteRef};
pub use policy::{Policy, PolicyRequest};
pub use policy_spec::{AgentDoor, AgentLimits, AgentSpec, PolicySpec};
pub use printable::{printable, printable_line};
pub use progress::Progress;
pub use public_address::is_public;
pub use remote::{
    BadBaseUrl, KeySource, MaxTokensField, Prices, RemoteDialect, RemoteSampling, RemoteSpec, RemoteTimeouts,
    TokenSource, ToolUse, check_base_url,
};
pub use reply::{Action, FinishReason, SampledTokens};
pub use reply_parser::{Reads, ReplyParser, ReplyPart};
pub use sandbox::{FixtureContent, FixtureFile, LINK_MODE, NetworkPolicy, SandboxKind, SandboxLimits};
pub use seed::{SplitMix64, derive_seed, stable_hash};
pub use sink::{AttemptRecord, EpisodeSink, LeaseRecord, SinkError};
pub use spaced_json::spaced_json;
pub use swe::{LogParser, SweSpec, TestNames, TestScore, TestSpec};
pub use task::{EnvSpec, Script, Solver, TaskSpec, TaskView, asked_by_pages};
pub use text_source::TextSource;
pub use ticks::ticks;
pub use timeouts::Timeouts;
pub use toolcall::{
    AnswerCheck, CallPattern, ExpectedCall, StepEvent, StepReward, TextMatch, ToolDecl, ToolKind,
    ToolcallSpec, ValuePattern,
};
pub use usage::{Usage, UsageSource, UsageTotal};
pub use workspace::{TerminalSpec, WorkspaceSpec};
