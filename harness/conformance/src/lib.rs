//! What every `EnvProvider` must pass, whatever it provides.
//!
//! C1 order: lease, reset, step, grade, close work, and what is live is counted. C2 close twice is close
//! once. C3 a dropped step poisons: later calls but `close` are harness faults, and `close` still ends
//! everything. C4 dropping without `close` leaves nothing. C5 an operation that would take long returns by
//! its deadline, and its fault, if it is one, names the step limit; it is graded then. C6 a cancelled operation returns early.
//! C7 a dropped lease leaks nothing. C8 a lease asked for with a fired token returns soon. C9 shutdown ends what
//! is leased and what is warm. C10 the same seed and calls give the same observations, where claimed.
//! C11 neighbours do not disturb each other. C12 warming up leaves only ready environments. C13 an episode
//! ends when its ending calls are made, where given.
//!
//! Where no operation is known that takes long, C3 and C6 interrupt one that is quick, as soon as it waits for anything, and
//! C5 begins one whose time is up. What that does not show is said with the verdict.
//!
//! Of environments that somebody else wrote more is asked, because nobody here has read them. C14 calls that make no sense
//! are answered by an observation. C15 an episode without a step is graded, and does not pass. C16 two sessions that take
//! turns show what each of them shows alone.
//!
//! "Nothing" is `usage()`: after each check the provider is shut down and must count no live environment.
//! What the provider calls gone but is not (processes, mounts) is for the provider's own tests.

mod case;
mod checks;
mod custom;
mod runner;

pub use case::Case;
pub use runner::{Finding, Report, Verdict, check_custom, check_provider};
