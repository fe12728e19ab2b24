//! Reports of runs: statistics with intervals, one HTML page with every attempt, exports to other formats.
//!
//! A report is made from a run's record alone, in any state of the run, and changes nothing in it. The
//! statistics are in `at_k.rs` and in `rate.rs` of the record crate, each with formula and source; `gather.rs` reads the trajectories once,
//! `page/` writes the page.
//!
//! I1. A fault is never a failure: it counts in no denominator, and is listed separately (I2 of the architecture).
//! I2. A report is a function of the record: no clock, no time zone, no number of threads changes it.
//! I3. Text of attempts is shown as text. In the page it can become neither markup nor script.
//! I4. Damage is an error that names the frame; it is never skipped.
//!
//! Units: rates in [0, 1]; `_us` microseconds, `_ms` milliseconds.
//!
//! Errors: [`ReportError`].

mod at_k;
mod atif;
mod block;
mod describe;
mod detail;
mod error;
mod gather;
mod histogram;
mod junit;
mod kind;
mod page;
mod report;
mod series;
mod slots;
mod stats;
mod text;
mod thumbnails;
mod words;

pub use at_k::{AtK, Mean, at_k, success_in};
pub use clawrl_record::{Clusters, Method, Rate, Tries, rate};
pub use describe::{
    end_word, ending_word, heading, is_part_of, part_of, policy_and_model, policy_words, remote_words,
    state_word, time,
};
pub use detail::{call_text, shown};
pub use error::ReportError;
pub use gather::Options;
pub use histogram::{BUCKETS, Histogram, PER_DECADE, upper_us};
pub use junit::{JunitCase, JunitEnd, JunitSuite, junit_xml};
pub use kind::{cancel_text, stop_text};
pub use page::STATS_STYLE;
pub use report::{Report, report};
pub use series::{EventLog, exposition, history};
pub use slots::{csv_of_run, junit_of_run};
pub use stats::{GroupStats, Heading, Per, PhaseStats, Row, RunStats, SuiteStats, TaskStats};
pub use text::render_text;
