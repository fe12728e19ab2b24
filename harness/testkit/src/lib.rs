//! What tests of the workspace share. A dev-dependency only.
//!
//! - [`conformance`]: what every `EnvProvider` must pass, whatever it provides.
//! - Fakes for tests of the harness itself: environments that do nothing ([`NullProvider`]) or fail as
//!   scripted ([`FaultyProvider`]), a policy from a closure ([`ScriptedPolicy`]), a sink in memory that checks
//!   the sink's contract ([`MemorySink`]), and small plans ([`PlanShape`]).
//! - [`unpack_image`]: a small root file system to put sandboxes on, of this machine's own programs.
//!
//! Fakes are for what is under test around them. What an environment does is tested with the real one.

pub mod conformance;
mod faulty;
mod memory_sink;
mod null;
mod plan;
mod policy;
mod unpack_image;

pub use faulty::{FaultyProvider, Mishap, MishapRates, Script, Site};
pub use memory_sink::{MemorySink, SinkFailure};
pub use null::{NullProvider, NullSettings};
pub use plan::{PlanShape, SuiteShape, call, run_tool, submit_tool, task};
pub use policy::{Reply, ScriptedPolicy};
pub use unpack_image::unpack_image;
