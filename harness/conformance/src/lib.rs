//! The conformance suite of `EnvProvider` implementations.
//!
//! C1 order: lease, reset, step, grade, close work, and live environments are counted. C2 closing twice equals closing
//! once. C3 a dropped step poisons: later calls except `close` are harness faults, and `close` still ends
//! everything. C4 dropping without `close` leaves nothing. C5 an operation that would take long returns by
//! its deadline; if it faults, the fault names the step limit; grading works after it. C6 a cancelled operation returns early.
//! C7 a dropped lease leaks nothing. C8 a lease with a fired token returns soon. C9 shutdown ends leased
//! and warm environments. C10 equal seeds and calls give equal observations, if claimed.
//! C11 neighbours do not disturb each other. C12 warming up leaves only ready environments. C13 the
//! given ending calls end an episode.
//!
//! If no long operation is known, C3 and C6 interrupt a quick one as soon as it waits for anything, and
//! C5 starts one whose deadline has passed. The report states what this does not cover.
//!
//! Custom environments pass more checks, because their code is unknown. C14 invalid calls
//! are answered with an observation. C15 an episode without a step is graded, and does not pass. C16 two interleaved
//! sessions observe the same as each of them alone.
//!
//! "Nothing" is `usage()`: after each check the provider is shut down and must count no live environment.
//! Leaks that the provider does not count (processes, mounts) are covered by the provider's own tests.

mod case;
mod checks;
mod custom;
mod runner;

pub use case::Case;
pub use runner::{CheckOutcome, Finding, Report, check_custom, check_provider};
