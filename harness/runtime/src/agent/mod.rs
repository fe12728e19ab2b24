//! Agent programs as policies: a program of the user's own for each attempt, which drives the environment and asks a model
//! of ours.
//!
//! ```text
//! scheduler ─ act ─► AgentPolicy ◄─ visits ─ stdin/stdout or /env ─┐
//!     ▲                  │                                          program
//!     └── action ◄───────┘        model ◄─ /v1/chat/completions ────┘
//! ```
//!
//! The scheduler goes on to ask a policy for each turn; here that means to wait until the program asks for a step, which becomes
//! the action. So limits, records, grades and faults are those of every policy.
//!
//! A1. A program is started once for an attempt, and ends with it, with all that it started. A2. Whatever it writes, memory is
//! bounded. A3. A key is good for one attempt, while that lasts. A4. What the model took stands with the action that it led to.
//! A5. After a `cassette-miss` the attempt faults, whatever its program makes of the answer.

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
