//! Renders assessments: text for pull requests, files for tools, a page for people.
//!
//! I1. Each rendering is a function of the assessments: no clock, no time zone, no machine. I2. All renderings agree: a part that fails in
//! one fails in all. I3. Names and sentences may contain anything, and are always escaped: never markup or commands.
//!
//! Errors: [`OutputError`], for files only. Nothing to cancel.

mod annotations;
mod escape;
mod files;
mod html;
mod json;
mod junit;
mod markdown;
mod part;
mod words;

pub use annotations::annotations;
pub use files::{OutputError, Outputs, write_outputs};
pub use html::gates_page;
pub use json::assessments_json;
pub use junit::junit;
pub use markdown::{MARKDOWN_BYTES, markdown};

pub(crate) use html::{Frame, Scale, change, text};
pub(crate) use part::{each_task_outcome, rate};
pub(crate) use words::{NONE, counted, counts, interval, signed, unsigned};
