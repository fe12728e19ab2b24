//! Fills the slots of a run plan.
//!
//! One **dispatcher** owns all mutable state; one **executor** task per attempt drives one episode. They are
//! joined by one closed event enum over a bounded channel, and by one answer per result. What the dispatcher
//! decides is a pure state machine (`state`), tested against a model; who gets the next permit is a pure
//! queue (`share`).
//!
//! What holds, each with a test behind it:
//! - Every attempt resolves exactly once; the first accepted result closes its slot; a result of an older
//!   fencing epoch is discarded and counted (I1 of the architecture).
//! - Only faults whose retry is sound are retried, at most `max_retries` times per slot and process, always
//!   in a fresh environment, under a new attempt number and epoch. All seeds are functions of the slot, not
//!   of the attempt, so a retry of a deterministic task repeats the same episode (I8).
//! - Nothing that hangs, panics or blocks holds up the end of a run: operations are bounded, panics become
//!   faults, silent attempts are reaped, closing always happens.
//! - The limit that fired is the limit that is named, also between nested limits.
//! - With a [`Demand`], no slot is dispatched before its group is wanted, and a run waits for demand without ever
//!   hanging on it.
//!
//! Knows the traits of `clawrl-core` and tokio; knows neither files nor formats nor any environment.

mod attempt;
mod backoff;
mod config;
mod conversation;
mod demand;
mod dispatcher;
mod event;
mod executor;
mod guard;
mod limits;
mod progress;
mod reaper;
mod report;
mod scheduler;
mod share;
mod shared;
mod soundness;
mod state;
mod trim;
mod vital;

pub use attempt::reply_seed;
pub use config::{Interrupt, ProviderConfig, SchedulerConfig, SetupError};
pub use conversation::{CONTEXT_BUDGET_CHARS, context, opening_prompt, reply_message};
pub use demand::{Demand, Wanted};
pub use limits::{MALFORMED_IN_A_ROW, Patience};
pub use progress::{Latencies, Latency, Phase, PhaseCounts, Progress, ProgressSnapshot};
pub use report::{FaultKind, RunEnd, RunError, RunReport};
pub use scheduler::Scheduler;
