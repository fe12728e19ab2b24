//! The verifier: a program that grades once the agent is done.
//!
//! I1. It runs after everything of the agent was killed: in a fresh sandbox on a copy of the workspace, in one apart
//!     that gets artifacts only, or, where a sandbox verifies in place, in the agent's own.
//! I2. A verifier that tells no score is a fault that names what it said last, and so is one that its limit killed or
//!     that tells a score outside [0, 1]. None of these is a score of 0.
//! I3. What the agent left and cannot be copied is a score of 0, or is missed by the verifier, and is flagged. So is a
//!     workspace that is gone, or cannot be entered. What the machine cannot copy is a fault.
//!
//! Units: scores in [0, 1]. Errors: env [`Fault`]s (`no-reward`, `bad-reward`, `verifier-timeout`,
//! `verifier-broken`), grader faults for the machine's. Cancellation: dropping the future ends the sandboxes that were
//! started for it.
//!
//! [`Fault`]: clawrl_core::Fault

mod artifacts;
mod pytest;
mod reward;
mod run;

pub(crate) use artifacts::collect;
pub(crate) use run::{Grading, verify};
