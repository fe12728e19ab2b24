//! A run as one page of HTML.
//!
//! The summary is plain HTML and readable without script. Attempts and recordings are blocks of `block.rs`, which the
//! viewer decompresses when somebody looks at them.
//!
//! P1. One file: nothing is loaded from elsewhere, and the page's own policy forbids it. The policy lets the one
//! script and the one style run that it has the hashes of. P2. Everything from outside is escaped in HTML, and of
//! letters and digits only in blocks. P3. The page is a function of the record: neither clock nor time zone of whoever
//! reports are in it.
//!
//! Pure; the caller writes the file.

mod charts;
mod document;
mod index;
mod tables;

pub use document::FIGURES_STYLE;
pub(crate) use document::render;
