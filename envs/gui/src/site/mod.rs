//! The sites of an attempt: their answers, and their log of requests.
//!
//! S1. Only files named in the plan are served: a path is looked up among the hashed files, and never resolved by the
//! file system.
//! S2. A file that changed since it was hashed is not served, and is a fault of the attempt.
//! S3. A site does not answer a request without room in the log, so that no request is hidden by many others.
//! S4. Routes are counted in the order of the log.
//! S5. Memory of an attempt is bounded, whatever its pages send.
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
