//! `clawrl ci`: gates over real suites, what they pass, fail and refuse, and the project's own.

mod accepting;
mod ending;
mod ground;
mod judging;
mod own;
mod refusing;
#[cfg(feature = "torch")]
mod worse;
