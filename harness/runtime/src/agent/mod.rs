//! Agent programs as policies: for each attempt, a program of the user drives the environment and asks a model of ClawRL.
//!
//! ```text
//! scheduler ─ act ─► AgentPolicy ◄─ visits ─ stdin/stdout or /env ─┐
//!     ▲                  │                                          program
//!     └── action ◄───────┘        model ◄─ /v1/chat/completions ────┘
//! ```
//!
//! The scheduler asks this policy for each turn, too; the policy then waits until the program requests a step, which becomes the
//! action. Limits, records, grades and faults are therefore the same as for every policy.
//!
//! A1. A program is started once for each attempt, and ends with it, with all its child processes. A2. Memory is bounded for any
//! output. A3. A key is valid for one attempt, until its end. A4. The model's usage is recorded with the action that it led to.
//! A5. After a `cassette-miss` the attempt faults, regardless of the program's reaction.

mod completion;
mod endpoint;
mod key;
mod model;
mod policy;
mod program;
mod reply;
mod session;
mod speech;

pub(crate) use model::{PerAttempt, may_answer};
pub(crate) use policy::{AgentConfig, AgentPolicy};
