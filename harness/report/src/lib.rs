//! Reports of runs: figures with their intervals, one page of HTML with every attempt, exports to formats of others.
//!
//! A report is made from a run's record alone, whatever state the run is in, and changes nothing in it. The
//! statistics are in `at_k.rs` and `rate.rs` of the record, each with formula and source; `gather.rs` reads the trajectories once,
//! `page/` writes the page.
//!
//! I1. A fault is never a failure: it is in no denominator, and stands beside it (I2 of the architecture).
//! I2. A report is a function of the record: no clock, no time zone, no number of threads changes it.
//! I3. What an attempt wrote is shown as text. In the page it can neither become markup nor script.
//! I4. Damage is an error that names the frame, never skipped.
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
mod figures;
mod film;
mod gather;
mod histogram;
mod junit;
mod kind;
mod page;
mod report;
mod series;
mod slots;
mod text;
mod words;

pub use at_k::{AtK, Mean, at_k, success_in};
pub use clawrl_record::{Clusters, Method, Rate, Tries, rate};
pub use describe::{
    end_word, ending_word, heading, is_part_of, part_of, policy_and_model, policy_words, remote_words,
    state_word, time,
};
pub use detail::{call_text, shown};
pub use error::ReportError;
pub use figures::{Figures, GroupFigures, Heading, Per, PhaseFigures, Row, SuiteFigures, TaskFigures};
pub use gather::Options;
pub use histogram::{BUCKETS, Histogram, PER_DECADE, upper_us};
pub use junit::{JunitCase, JunitEnd, JunitSuite, junit_xml};
pub use kind::{cancel_words, stop_words};
pub use page::FIGURES_STYLE;
pub use report::{Report, report};
pub use series::{EventLog, exposition, history};
pub use slots::{csv_of_run, junit_of_run};
pub use text::render_text;
