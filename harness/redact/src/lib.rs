//! Removes secrets from texts before these are stored or shown.
//!
//! Two kinds of secrets: values that are known ([`Redactor`]: a run's records, and the results of tools and MCP servers),
//! and texts that look like keys ([`RuleRedactor`]: the gateway's ledger).
//!
//! I1. A redacted text does not hold a known value in any spelling that [`Redactor`] finds: plain, with the escapes of
//!     JSON, or in percent-encoding, each encoded once or several times; cut by the line ends of a narrow terminal or by
//!     control sequences; or cut into the events of a terminal recording.
//! I2. Where values overlap, all text that they cover is removed, and each value's mark appears once.
//! I3. A text without secrets stays the same, byte for byte.
//! I4. The sampled tokens of a redacted reply are dropped: they spell the value, too.
//! I5. Where a text was truncated, a part of a value at that edge is removed, from 4 characters on ([`Cut`]).
//! I6. Rules read the strings of a JSON body unescaped; its keys stay. A redacted body is valid JSON, and its other
//!     strings stay the same, byte for byte.
//!
//! Not found: a value in base64 or with HTML entities, or spread over several messages. Ids and the codes of faults are
//! not searched. Everything here is pure; there is nothing to cancel.

mod cast;
mod error;
mod record;
mod redactor;
mod rules;
mod spelling;

pub use error::{RedactionError, RuleError};
pub use redactor::{Redactor, redaction_mark};
pub use rules::{RedactionRule, RuleCounts, RuleRedactor};
pub use spelling::Cut;
