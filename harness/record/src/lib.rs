//! The run store: files of a run under `results/runs/<run>/`, and their readers.
//!
//! A run's folder contains its plan and lock file, a journal (plan, leases, resolutions; never steps), one
//! zstd frame per attempt, metrics and a summary. The folder of a training also contains the resolved train file and
//! the learner's checkpoints, of which this crate knows only the location. `results/README.md` documents every byte.
//! The scheduler does not depend on this crate: both use [`clawrl_core::EpisodeSink`].
//!
//! I1. An acknowledged record survives `kill -9` of the writer (it was written), and a loss of power
//!     after 50 ms and one `fdatasync` (it was synced).
//! I2. The journal is a typed state machine, [`JournalState`]: invalid entries are never written,
//!     and reading one is an error that names the line. Replaying a journal gives the state of its writer.
//! I3. A torn tail is cut at resume and reported. Damage before the tail is an error, never skipped.
//! I4. One process writes a run. The lock of a dead owner is free at once.
//! I5. Readers modify nothing, and work while the run is written.
//! I6. Older formats are migrated step by step, newer ones are refused by name.
//! I7. No record contains the value of a named secret; [`clawrl_redact`] defines which spellings that covers.
//! I8. A blob is completely written and synced before a record can refer to it; [`RunBlobs`].
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
pub use held_out::{HeldOut, best_of, fall_of, fall_text, falls_of, render_held_out, write_held_out};
pub use journal::TailCut;
pub use judgements::{CastVote, JudgedTurn, Judgement};
pub use lock_file::{LimitNotSet, LockFile};
pub use metrics::{Metric, MetricRow, UpdateMetrics};
pub use page::{PAGE_STYLE, escape_html};
pub use quantile::student;
pub use rate::{Clusters, Method, Rate, Tries, rate};
pub use resume::{ResumeMode, ResumeState};
pub use run::Run;
pub use sink::RunSink;
pub use state::{JournalState, SlotState, SlotStatus};
pub use store::{RunInfo, RunState, RunStore};
pub use summary::{Counts, FaultCount, PassRate, PhasePercentiles, Phases, RunSummary, SuiteSummary};
pub use table::{SUITE_HEADINGS, aligned, duration, percent, rate_cells, render_summary, usage_text};
pub use training_report::{TrainingReport, render_training_report};
pub use violation::Violation;
pub use writer::RunWriter;
