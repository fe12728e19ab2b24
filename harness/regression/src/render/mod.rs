//! Assessments as others read them: as text for pull requests, as files for tools, as a page for people.
//!
//! I1. Each rendering is a function of the assessments: no clock, no time zone, no machine. I2. All of them say the same: what fails in
//! one fails in every one. I3. Names and sentences can hold anything, and are text wherever they end up: neither markup nor commands.
//!
//! Errors: [`OutputError`], of files alone. Nothing to cancel.

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
