//! Secrets stay out of what is stored.
//!
//! Values of named secrets are struck out of every text of a record before it is written: messages, calls,
//! observations, reports of checks, faults, and the recording of the terminal.
//!
//! I1. No text that was redacted holds a value, whole: as it is, spelled with the escapes of JSON to any depth, cut
//!     by the line ends of a narrow screen or by control sequences between its characters, or cut into any events
//!     of a recording.
//! I2. Where values overlap, all that they cover goes, and a mark for each of them stands there once.
//! I3. Without secrets nothing is looked at, and a record without a value is what it was, to the bit.
//! I4. Sampled tokens of a reply that was changed go with it: they spell the value, too.
//!
//! Not found: a value that was encoded (base64, percent signs), or that came in several turns or several messages.
//! Names of fields, ids and the codes of faults are not looked at. Pure; nothing to cancel.

mod cast;
mod error;
mod pattern;
mod record;
mod redactor;

pub use error::RedactionError;
pub use redactor::{Redactor, redaction_mark};
