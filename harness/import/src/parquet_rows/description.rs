//! A look at a file's description, at its end, before its reader sees it (P3).
//!
//! The reader recurses over columns inside columns and reserves room for as many as are announced, so that a few bytes would
//! exhaust the stack or the memory, which ends the process. Everything else it checks itself.
//!
//! Source: Thrift's compact protocol (apache/thrift: `thrift-compact-protocol.md`) and `parquet.thrift`: field 2 of
//! `FileMetaData` lists the fields of all columns, outer ones first, and field 5 of each is how many are in it; field 8 is
//! there if columns are encrypted.

/// Fields inside each other. A list takes two; more than these are refused anyway, by name, if they are few enough here.
const MOST_DEPTH: usize = 100;

/// Structs inside each other, for which the format has no use.
const MOST_STRUCTS: usize = 32;

const LIST: u8 = 9;
const STRUCT: u8 = 12;
const INT32: u8 = 5;

/// What a description is, at the first look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// The reader can be trusted with it.
    Sound,
    /// Columns are encrypted, though the description is not.
    Encrypted,
    /// It breaks off, or exhausts its reader.
    Unsound,
}

/// Looks at a description.
pub(super) fn look_at(description: &[u8]) -> Look {
    match Description(description).is_encrypted() {
        Some(false) => Look::Sound,
        Some(true) => Look::Encrypted,
        None => Look::Unsound,
    }
}

/// What is left to look at.
struct Description<'a>(&'a [u8]);

impl Description<'_> {
    /// Whether the file is encrypted; none if the description is not sound.
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
        // How many fields are still to come in each of the fields around.
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
            if children > elements || around.len() > MOST_DEPTH {
                return None;
            }
        }
        Some(())
    }

    /// How many fields are in the next one.
    fn children(&mut self) -> Option<u64> {
        let (mut id, mut children) = (0, 0);
        while let Some(kind) = self.field(&mut id)? {
            if (id, kind) == (5, INT32) {
                let number = self.number()?;
                // Signed ones have their sign in the last bit.
                children = if number & 1 == 0 { number >> 1 } else { return None };
            } else {
                self.skip(kind, 0)?;
            }
        }
        Some(children)
    }

    /// The kind of the next field, or that there is none in this struct.
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
        if structs > MOST_STRUCTS {
            return None;
        }
        match kind {
            // A truth value of a field is its kind.
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

    /// Seven bits a byte, the lowest first.
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

    /// A description of fields with so many inside each.
    fn check(children: &[u8], expected: bool) {
        assert!(children.len() < 128 * 128);
        let len = [(children.len() & 0x7f) as u8 | 0x80, (children.len() >> 7) as u8];
        let mut bytes = vec![0x15, 2, 0x19, 0xfc, len[0], len[1]];
        for children in children {
            bytes.extend([0x48, 1, b'a', 0x15, children << 1, 0]);
        }
        bytes.push(0);
        assert_eq!(look_at(&bytes) == Look::Sound, expected, "{} fields", children.len());
        assert_eq!(look_at(&bytes[..bytes.len() - 1]), Look::Unsound);
    }

    #[test]
    fn p3_descriptions_of_deep_columns_are_not_sound() {
        check(&[2, 0, 0], true);
        check(&[2, 1, 1, 0, 0], true);
        check(&[1; 90], true);
        check(&[1; 110], false);
        check(&[1; 10_000], false);
    }

    #[test]
    fn p3_descriptions_that_announce_more_than_they_have_are_not_sound() {
        check(&[4, 0, 0], false);
        check(&[60], false);
        assert_eq!(look_at(&[]), Look::Unsound);
        // A list of lists of lists, without an end.
        assert_eq!(look_at(&[0x29; 1000]), Look::Unsound);
    }
}
