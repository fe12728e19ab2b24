//! JSON with the separators of Python's `json.dumps`, `", "` and `": "`, which is how models were shown it.
//!
//! Pure; nothing to cancel.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Formats a value as `json.dumps(value, ensure_ascii=False)` does.
///
/// # Errors
/// Values that JSON cannot represent, such as maps with keys that are not strings.
pub fn spaced_json(value: &impl Serialize) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, Spaced))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
