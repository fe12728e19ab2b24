//! Fills the slots of a run plan.
//!
//! One **dispatcher** owns all mutable state; one **executor** task per attempt drives one episode. One closed
//! event enum over a bounded channel, and one answer per result, connect them. The dispatcher's
//! decisions are a pure state machine (`state`), tested against a model; the next permit is decided by a pure
//! queue (`share`).
//!
//! Guarantees, each with a test:
//! - Every attempt resolves exactly once; the first accepted result closes its slot; a result of an older
//!   fencing epoch is discarded and counted (I1 of the architecture).
//! - Only faults with a sound retry are retried, at most `max_retries` times per slot and process, always
//!   in a fresh environment, under a new attempt number and epoch. All seeds are functions of the slot, not
//!   of the attempt, so a retry of a deterministic task repeats the same episode (I8).
//! - Hanging, panicking or blocking code never delays the end of a run: operations are bounded, panics become
//!   faults, silent attempts are reaped, closing always happens.
//! - A fault names the limit that fired, also between nested limits.
//! - With a [`Demand`], no slot is dispatched before its group is in demand, and a run that waits for demand never
//!   hangs.
//!
//! Depends on the traits of `clawrl-core` and on tokio; knows neither files nor formats nor any environment.

mod attempt;
mod backoff;
mod config;
mod conversation;
mod demand;
mod dispatcher;
mod event;
mod executor;
mod guard;
mod heartbeat;
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

pub use attempt::reply_seed;
pub use config::{Interrupt, ProviderConfig, SchedulerConfig, SetupError};
pub use conversation::{CONTEXT_BUDGET_CHARS, context, opening_prompt, reply_message};
pub use demand::{Demand, GroupDemand};
pub use limits::{MALFORMED_IN_A_ROW, SchedulerTimeouts};
pub use progress::{Latencies, Latency, Phase, PhaseCounts, Progress, ProgressSnapshot};
pub use report::{FaultKind, RunEnd, RunError, RunReport};
pub use scheduler::Scheduler;
