//! A run as one page of HTML.
//!
//! The summary is plain HTML and readable without scripts. Attempts and recordings are blocks of `block.rs`, which the
//! viewer decompresses on demand.
//!
//! P1. One file: nothing is loaded from elsewhere, and the page's content security policy forbids it. The policy allows only the
//! script and the style with the given hashes. P2. Foreign text is escaped in HTML, and base64 in
//! blocks. P3. The page is a function of the record: it depends on neither clock nor time zone of
//! the reporting machine.
//!
//! Pure; the caller writes the file.

mod charts;
mod document;
mod index;
mod tables;

pub use document::STATS_STYLE;
pub(crate) use document::render;
