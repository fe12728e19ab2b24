//! `clawrl ci`: gates over real suites, and the gates of this project.

mod accepting;
mod ending;
mod ground;
mod judging;
mod own;
mod refusing;
#[cfg(feature = "torch")]
mod worse;
