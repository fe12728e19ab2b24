//! The sites of an attempt: what each answers, and what it was asked.
//!
//! S1. Nothing is served but what the plan names: a path is looked up among the files that were hashed, and nothing is made of
//! it that a file system would resolve. S2. A file that is no longer the one that was hashed is not served, and is a fault of
//! the attempt. S3. A site answers nothing that its log has no room for, so no request is hidden by many others. S4. Routes
//! are counted in the order of the log. S5. Memory of an attempt is bounded, whatever its pages send.
//!
//! Cancellation: dropping an answer's future or body ends it; the log keeps the request.

mod answer;
mod body;
mod content;
mod file_type;
mod folder;
mod log;
mod multipart;
mod origin;
mod path;
mod pattern;
mod range;
mod reader;
mod request;
mod route;
mod sites;
#[cfg(test)]
mod tests;

pub(crate) use body::{Body, empty, page};
pub use folder::folder_hash;
pub(crate) use log::{LoggedRequest, Matching};
pub(crate) use origin::{Origin, Scheme};
pub(crate) use reader::SiteReader;
pub(crate) use request::BODY_BYTES;
pub(crate) use sites::{ConnectionDropped, SiteNumber, Sites};
