//! The run store: what a run leaves under `results/runs/<run>/`, and how it is read again.
//!
//! A run's folder holds its plan and lock file, a journal (plan, leases, resolutions; never steps), one
//! zstd frame per attempt, metrics and a summary; that of a training also the train file, as it was resolved, and
//! the learner's checkpoints, of which this crate knows the place only. `results/README.md` documents every byte of it.
//! The scheduler does not know this crate: both meet at [`clawrl_core::EpisodeSink`].
//!
//! I1. A record that was acknowledged survives `kill -9` of the writer (it was written), and a loss of power
//!     once 50 ms and one `fdatasync` have gone by (it was synced).
//! I2. The journal is a typed state machine, [`JournalState`]: what would break its rules is never written,
//!     and never read without an error that names the line. Replaying a journal gives the state its writer had.
//! I3. A torn tail is cut at resume and reported. Damage before the tail is an error, never skipped.
//! I4. One process writes a run. A dead owner's lock is free at once.
//! I5. Readers modify nothing, and work while the run goes on.
//! I6. Older formats are migrated step by step, newer ones are refused by name.
//! I7. Records do not hold the values of named secrets; [`clawrl_redact`] defines which spellings that covers.
//! I8. What a record names by its hash was written whole, and synced, before the record could name it; [`RunBlobs`].
//!
//! Units: `_ms` is milliseconds since 1970 (UTC), `_us` is microseconds, offsets and lengths are bytes.
//!
//! Errors: [`RecordError`] for operations on runs, [`Violation`] for the state machine,
//! [`clawrl_core::SinkError`] towards the scheduler.

mod blobs;
mod committer;
mod entry;
mod error;
mod files;
mod frame;
mod held_out;
mod journal;
mod judgements;
mod line;
mod lock_file;
mod logs;
mod metrics;
mod migrate;
mod owner;
mod page;
mod quantile;
mod rate;
mod resume;
mod run;
mod sink;
mod state;
mod store;
mod summary;
mod table;
mod training_report;
mod violation;
mod writer;

pub use blobs::{RunBlobs, blob_path};
pub use clawrl_redact::{RedactionError, Redactor, redaction_mark};
pub use entry::{
    AttemptSummary, Ending, Entry, Finished, FrameRef, Line, LostTurns, Opened, PhaseMicros, ReopenCause,
    Resumed, RunEnd,
};
pub use error::RecordError;
pub use held_out::{HeldOut, best_of, fall_of, fall_words, falls_of, render_held_out, write_held_out};
pub use journal::TailCut;
pub use judgements::{CastVote, JudgedTurn, Judgement};
pub use lock_file::{LimitNotSet, LockFile};
pub use metrics::{Metric, MetricRow, UpdateFigures};
pub use page::{PAGE_STYLE, escape_html};
pub use quantile::student;
pub use rate::{Clusters, Method, Rate, Tries, rate};
pub use resume::{ResumeMode, ResumeState};
pub use run::Run;
pub use sink::RunSink;
pub use state::{JournalState, SlotState, SlotStatus};
pub use store::{RunInfo, RunState, RunStore};
pub use summary::{Counts, FaultCount, PassRate, PhasePercentiles, Phases, RunSummary, SuiteSummary};
pub use table::{SUITE_HEADINGS, aligned, duration, percent, rate_cells, render_summary, usage_words};
pub use training_report::{TrainingReport, render_training_report};
pub use violation::Violation;
pub use writer::RunWriter;
