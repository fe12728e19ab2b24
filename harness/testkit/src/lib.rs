//! Shared code for tests of the workspace. A dev-dependency only.
//!
//! - [`conformance`]: the conformance suite of `EnvProvider`; a separate crate, because `clawrl env check`
//!   uses it, too.
//! - Fakes for tests of the harness itself: environments that do nothing ([`NullProvider`]) or fail as
//!   scripted ([`FaultyProvider`]), a policy from a closure ([`ScriptedPolicy`]), a sink in memory that checks
//!   the sink's contract ([`MemorySink`]), and small plans ([`PlanShape`]).
//! - Terminals of any provider: small tasks ([`terminal_task`]), their conformance case ([`terminal_case`]), and
//!   steps of an episode ([`ready`], [`step`]).
//! - Software engineering environments of any provider: a small repository ([`swe_spec`]), their conformance case
//!   ([`swe_case`]), and attacks on grading ([`SWE_ATTACKS`], [`SWE_SHADOWS`]).
//! - [`again_as_normal_user`]: runs a test again without root.
//! - [`unpack_image`]: a small root file system for sandboxes, made of this machine's own programs.
//!
//! Fakes are for testing the code around them. Environments are tested with real ones.

mod faulty;
mod judge;
mod memory_sink;
mod normal_user;
mod null;
mod plan;
mod policy;
mod swe;
mod terminal;
mod unpack_image;

pub use clawrl_conformance as conformance;
pub use faulty::{FaultyProvider, Mishap, MishapRates, Script, Site};
pub use judge::ScriptedJudge;
pub use memory_sink::{MemorySink, SinkFailure};
pub use normal_user::again_as_normal_user;
pub use null::{NullProvider, NullSettings};
pub use plan::{PlanShape, SuiteShape, call, run_tool, submit_tool, task};
pub use policy::{Reply, ScriptedPolicy};
pub use swe::{
    SWE_ATTACKS, SWE_FIX, SWE_FORGED, SWE_LOOKS_INTO_HISTORY, SWE_SHADOWS, SWE_TESTS, bash, inline, swe_case,
    swe_grade, swe_grades, swe_spec, swe_spec_flat, swe_spec_with_history, swe_task,
};
pub use terminal::{
    file_equals, lease_request, populated, ready, small_terminal, step, step_ctx, terminal_case,
    terminal_task, text_file,
};
pub use unpack_image::unpack_image;
