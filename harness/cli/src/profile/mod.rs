//! `--profile`: where the time of this process went.
//!
//! A histogram of each phase that there was, in `profile/phases.json` and as a table, and a flame graph of the
//! processor time, `profile/flame.svg`, both in the run's folder. There is one profile a process, as there is one
//! SIGPROF; so what takes time tells it by [`took`], wherever it is.
//!
//! I1. Without [`start`] nothing is kept, written or installed. I2. A phase that nothing was in is not listed. I3. What
//! keeps the flame graph from being made is a warning: the histograms are written all the same. I4. No text of a run gets
//! into a profile, only durations and names of functions.

mod durations;
mod file;
mod phase;
mod recorder;
mod table;
mod waiting;
mod watched;

pub use phase::Phase;
pub use recorder::{finish, start, took};
pub(crate) use watched::watched;
