//! Checks a file's metadata before the Parquet reader parses it (P3).
//!
//! The reader recurses into nested columns and allocates as many as are declared, so that a few bytes could exhaust the
//! stack or the memory and end the process. It checks everything else itself.
//!
//! Source: Thrift's compact protocol (apache/thrift: `thrift-compact-protocol.md`) and `parquet.thrift`: field 2 of
//! `FileMetaData` lists the fields of all columns, outer ones first; field 5 of each is its number of children; field 8
//! exists if columns are encrypted.

/// Maximum nesting of fields. A list takes two; a smaller excess is refused later, by name.
const MAX_DEPTH: usize = 100;

/// Maximum nesting of structs; the format needs fewer.
const MAX_STRUCTS: usize = 32;

const LIST: u8 = 9;
const STRUCT: u8 = 12;
const INT32: u8 = 5;

/// Result of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetadataCheck {
    /// The reader can parse it safely.
    Sound,
    /// Columns are encrypted, but the metadata is not.
    Encrypted,
    /// It is incomplete, or would exhaust the reader.
    Unsound,
}

/// Checks the metadata.
pub(super) fn look_at(description: &[u8]) -> MetadataCheck {
    match Description(description).is_encrypted() {
        Some(false) => MetadataCheck::Sound,
        Some(true) => MetadataCheck::Encrypted,
        None => MetadataCheck::Unsound,
    }
}

/// The unread rest.
struct Description<'a>(&'a [u8]);

impl Description<'_> {
    /// Whether the file is encrypted; `None` if the metadata is not sound.
    fn is_encrypted(&mut self) -> Option<bool> {
        let (mut id, mut is_encrypted) = (0, false);
        while let Some(kind) = self.field(&mut id)? {
            is_encrypted |= (id, kind) == (8, STRUCT);
            if (id, kind) == (2, LIST) { self.schema()? } else { self.skip(kind, 0)? }
        }
        Some(is_encrypted)
    }

    fn schema(&mut self) -> Option<()> {
        let (kind, elements) = self.list()?;
        if kind != STRUCT {
            return None;
        }
        // Number of missing children of each enclosing field.
        let mut around: Vec<u64> = Vec::new();
        for _ in 0..elements {
            let children = self.children()?;
            if let Some(left) = around.last_mut() {
                *left -= 1;
            }
            if children > 0 {
                around.push(children);
            }
            while around.last() == Some(&0) {
                around.pop();
            }
            if children > elements || around.len() > MAX_DEPTH {
                return None;
            }
        }
        Some(())
    }

    /// Number of children of the next field.
    fn children(&mut self) -> Option<u64> {
        let (mut id, mut children) = (0, 0);
        while let Some(kind) = self.field(&mut id)? {
            if (id, kind) == (5, INT32) {
                let number = self.number()?;
                // Signed numbers have their sign in the last bit.
                children = if number & 1 == 0 { number >> 1 } else { return None };
            } else {
                self.skip(kind, 0)?;
            }
        }
        Some(children)
    }

    /// The type of the next field; `None` at the end of the struct.
    fn field(&mut self, id: &mut u64) -> Option<Option<u8>> {
        let head = self.byte()?;
        let (step, kind) = (head >> 4, head & 15);
        if kind == 0 {
            return Some(None);
        }
        *id = if step == 0 { self.number()? >> 1 } else { *id + u64::from(step) };
        Some(Some(kind))
    }

    fn list(&mut self) -> Option<(u8, u64)> {
        let head = self.byte()?;
        let len = if head >> 4 == 15 { self.number()? } else { u64::from(head >> 4) };
        Some((head & 15, len))
    }

    fn skip(&mut self, kind: u8, structs: usize) -> Option<()> {
        if structs > MAX_STRUCTS {
            return None;
        }
        match kind {
            // The type of a boolean field holds its value.
            1 | 2 => Some(()),
            3 => self.bytes(1),
            4..=6 => self.number().map(|_| ()),
            7 => self.bytes(8),
            8 => {
                let len = self.number()?;
                self.bytes(len)
            }
            LIST | 10 => {
                let (kind, len) = self.list()?;
                (0..len)
                    .try_for_each(|_| if kind <= 2 { self.bytes(1) } else { self.skip(kind, structs + 1) })
            }
            STRUCT => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, structs + 1)?;
                }
                Some(())
            }
            _ => None,
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn bytes(&mut self, len: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(len).ok()?..)?;
        Some(())
    }

    /// Seven bits per byte, lowest first.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Metadata of fields with these numbers of children.
    fn check(children: &[u8], expected: bool) {
        assert!(children.len() < 128 * 128);
        let len = [(children.len() & 0x7f) as u8 | 0x80, (children.len() >> 7) as u8];
        let mut bytes = vec![0x15, 2, 0x19, 0xfc, len[0], len[1]];
        for children in children {
            bytes.extend([0x48, 1, b'a', 0x15, children << 1, 0]);
        }
        bytes.push(0);
        assert_eq!(look_at(&bytes) == MetadataCheck::Sound, expected, "{} fields", children.len());
        assert_eq!(look_at(&bytes[..bytes.len() - 1]), MetadataCheck::Unsound);
    }

    #[test]
    fn p3_deeply_nested_metadata_is_refused() {
        check(&[2, 0, 0], true);
        check(&[2, 1, 1, 0, 0], true);
        check(&[1; 90], true);
        check(&[1; 110], false);
        check(&[1; 10_000], false);
    }

    #[test]
    fn p3_metadata_with_missing_fields_is_refused() {
        check(&[4, 0, 0], false);
        check(&[60], false);
        assert_eq!(look_at(&[]), MetadataCheck::Unsound);
        // Endlessly nested lists.
        assert_eq!(look_at(&[0x29; 1000]), MetadataCheck::Unsound);
    }
}
