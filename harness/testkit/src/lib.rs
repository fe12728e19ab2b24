//! What tests of the workspace share. A dev-dependency only.
//!
//! - [`conformance`]: what every `EnvProvider` must pass, whatever it provides; a crate of its own, since `clawrl env check`
//!   asks it, too.
//! - Fakes for tests of the harness itself: environments that do nothing ([`NullProvider`]) or fail as
//!   scripted ([`FaultyProvider`]), a policy from a closure ([`ScriptedPolicy`]), a sink in memory that checks
//!   the sink's contract ([`MemorySink`]), and small plans ([`PlanShape`]).
//! - Terminals, whoever provides them: small tasks ([`terminal_task`]), their case for the suite ([`terminal_case`]), and
//!   the way through an episode ([`ready`], [`step`]).
//! - [`unpack_image`]: a small root file system to put sandboxes on, of this machine's own programs.
//!
//! Fakes are for what is under test around them. What an environment does is tested with the real one.

mod faulty;
mod judge;
mod memory_sink;
mod null;
mod plan;
mod policy;
mod terminal;
mod unpack_image;

pub use clawrl_conformance as conformance;
pub use faulty::{FaultyProvider, Mishap, MishapRates, Script, Site};
pub use judge::ScriptedJudge;
pub use memory_sink::{MemorySink, SinkFailure};
pub use null::{NullProvider, NullSettings};
pub use plan::{PlanShape, SuiteShape, call, run_tool, submit_tool, task};
pub use policy::{Reply, ScriptedPolicy};
pub use terminal::{
    file_equals, furnished, lease_request, ready, small_terminal, step, step_ctx, terminal_case,
    terminal_task, text_file,
};
pub use unpack_image::unpack_image;
