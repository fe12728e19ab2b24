//! The verifier: a program that grades after the agent is done.
//!
//! I1. It runs after all processes of the agent were killed: in a fresh sandbox on a copy of the workspace, in a
//! separate one that gets only artifacts, or, if the backend verifies in place, in the agent's own.
//! I2. A verifier that reports no score is a fault that contains its last output; so is one that reached its limit or
//! reports a score outside [0, 1]. None of these is a score of 0.
//! I3. Content of the agent that cannot be copied is a score of 0, or is missing for the verifier, and is flagged. The
//! same holds for a workspace that is gone, or cannot be entered. A copy that the machine prevents is a fault.
//!
//! Units: scores in [0, 1]. Errors: env [`Fault`]s (`no-reward`, `bad-reward`, `verifier-timeout`, `verifier-broken`),
//! grader faults for the machine's. Cancellation: dropping the future ends the sandboxes that were started for it.
//!
//! [`Fault`]: clawrl_core::Fault

mod artifacts;
mod pytest;
mod reward;
mod run;

pub(crate) use artifacts::collect;
pub(crate) use run::{Grading, verify};
