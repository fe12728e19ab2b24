//! Encodes one line of the journal, with its checksum.
//!
//! `{"crc":"0123abcd","t_ms":1767225600123,"entry":{...}}` and a newline: one JSON object per line, whose first
//! 18 bytes have a fixed form. The checksum is CRC-32 (IEEE), eight lower-case hex digits, over the
//! bytes after the first comma up to and without the newline.
//!
//! I1. A line that differs in any single bit from the written one does not decode.
//! I2. Writing never fails: a line consists of integers, finite floats and strings.

use thiserror::Error;

use crate::Line;

const PREFIX: &[u8] = b"{\"crc\":\"";
/// Length of `{"crc":"0123abcd",`.
const HEAD: usize = PREFIX.len() + 8 + 2;

/// Reason for which bytes are not a line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum LineError {
    #[error("it does not start with a checksum")]
    NoChecksum,
    #[error("its checksum is {written:08x}, expected {actual:08x}")]
    WrongChecksum { written: u32, actual: u32 },
    #[error("its checksum is valid, but its content is not: {0}")]
    Content(String),
}

/// Appends the line, newline included.
///
/// # Errors
/// Errors of `serde_json`, which do not occur for a [`Line`].
pub(crate) fn encode(line: &Line, into: &mut Vec<u8>) -> serde_json::Result<()> {
    let start = into.len();
    into.extend_from_slice(PREFIX);
    into.extend_from_slice(b"00000000\"");
    let brace = into.len();
    if let Err(error) = serde_json::to_writer(&mut *into, line) {
        into.truncate(start);
        return Err(error);
    }
    // Two objects become one: the second's opening brace is the comma between their members.
    into[brace] = b',';
    let body = brace + 1;
    let crc = crc32fast::hash(&into[body..]);
    let digits = format!("{crc:08x}");
    into[start + PREFIX.len()..start + PREFIX.len() + 8].copy_from_slice(digits.as_bytes());
    into.push(b'\n');
    Ok(())
}

/// Decodes a line without its newline.
pub(crate) fn decode(bytes: &[u8]) -> Result<Line, LineError> {
    let body = checked_body(bytes)?;
    let mut object = Vec::with_capacity(body.len() + 1);
    object.push(b'{');
    object.extend_from_slice(body);
    serde_json::from_slice(&object).map_err(|error| LineError::Content(error.to_string()))
}

/// Whether bytes start like a line of this kind.
pub(crate) fn has_checksum(bytes: &[u8]) -> bool {
    bytes.starts_with(PREFIX)
}

/// The bytes that the checksum covers, if it is right: an object without its opening brace.
pub(crate) fn checked_body(bytes: &[u8]) -> Result<&[u8], LineError> {
    let digits = bytes.strip_prefix(PREFIX).and_then(|rest| rest.get(..8)).ok_or(LineError::NoChecksum)?;
    if bytes.get(PREFIX.len() + 8..HEAD) != Some(b"\",") {
        return Err(LineError::NoChecksum);
    }
    let written = hex(digits).ok_or(LineError::NoChecksum)?;
    let body = &bytes[HEAD..];
    let actual = crc32fast::hash(body);
    if written == actual { Ok(body) } else { Err(LineError::WrongChecksum { written, actual }) }
}

/// Lower case only: a flipped bit turns `a` into `A`.
fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0u32, |value, &digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(value << 4 | u32::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use clawrl_core::{AttemptId, Epoch, LeaseRecord, SlotId};

    use super::*;
    use crate::Entry;

    fn lease() -> Line {
        let attempt = AttemptId { slot: SlotId(3), number: 0 };
        Line { t_ms: 1_767_225_600_123, entry: Entry::Leased(LeaseRecord { attempt, epoch: Epoch(4) }) }
    }

    fn encoded(line: &Line) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(line, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_line_is_one_json_object() {
        let bytes = encoded(&lease());
        insta::assert_snapshot!(
            String::from_utf8(bytes.clone()).unwrap(),
            @r#"{"crc":"b7c1e413","t_ms":1767225600123,"entry":{"leased":{"attempt":{"slot":3,"number":0},"epoch":4}}}"#
        );
        let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(value["t_ms"], 1_767_225_600_123u64);
        assert_eq!(decode(&bytes[..bytes.len() - 1]), Ok(lease()));
    }

    #[test]
    fn i1_any_flipped_bit_is_seen() {
        for line in [lease(), Line { t_ms: 0, entry: Entry::Synced }] {
            let bytes = encoded(&line);
            let bytes = &bytes[..bytes.len() - 1];
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.to_vec();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(decode(&flipped).is_err(), "bit {bit} of {}", String::from_utf8_lossy(bytes));
            }
        }
    }

    #[test]
    fn a_shortened_line_is_seen() {
        let bytes = encoded(&lease());
        for len in 0..bytes.len() - 1 {
            assert!(decode(&bytes[..len]).is_err(), "{len} bytes");
        }
    }
}
