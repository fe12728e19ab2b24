//! Assessments as one page of HTML, in the look of the report of a run.
//!
//! P1. One file without script: nothing is loaded from elsewhere, and the page's own policy forbids it; it lets the one style be that it has the
//! hash of. P2. Everything from outside is escaped. P3. The page is readable in light and dark, and on a phone.
//!
//! Pure; nothing to cancel.

mod chart;
mod frame;
mod page;
mod tasks;

pub(crate) use chart::{Scale, change};
pub(crate) use frame::{Frame, text};
pub use page::gates_page;
