//! Archives with a single file, the form in which drivers take uploads: stored, not compressed.

/// Names are UTF-8.
const UNICODE_NAMES: u16 = 0x0800;

/// The first date of the format, 1980-01-01.
const NO_DATE: u16 = 0x0021;

/// Required version of the reader: 2.0.
const VERSION: u16 = 20;

/// An archive of a file. `None` for a file of 4 GiB or more, and for a name that is too long.
pub(super) fn archive(name: &str, content: &[u8]) -> Option<Vec<u8>> {
    let (name_bytes, size) = (u16::try_from(name.len()).ok()?, u32::try_from(content.len()).ok()?);
    // The file's header, used before its content and in the directory at the end.
    let mut entry = Vec::new();
    for number in [VERSION, UNICODE_NAMES, 0, 0, NO_DATE] {
        entry.extend(number.to_le_bytes());
    }
    for number in [crc32fast::hash(content), size, size] {
        entry.extend(number.to_le_bytes());
    }
    for number in [name_bytes, 0] {
        entry.extend(number.to_le_bytes());
    }
    let mut bytes = Vec::with_capacity(content.len() + 2 * name.len() + 98);
    bytes.extend(b"PK\x03\x04");
    bytes.extend(&entry);
    bytes.extend(name.as_bytes());
    bytes.extend(content);
    let list = u32::try_from(bytes.len()).ok()?;
    bytes.extend(b"PK\x01\x02");
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(&entry);
    // No comment, the first volume, a regular file, at offset 0.
    bytes.extend([0; 6]);
    for number in [0x20, 0u32] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(name.as_bytes());
    let list_bytes = u32::try_from(bytes.len()).ok()? - list;
    bytes.extend(b"PK\x05\x06");
    for number in [0, 0, 1, 1u16] {
        bytes.extend(number.to_le_bytes());
    }
    for number in [list_bytes, list] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend([0; 2]);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_as_another_program_writes_it() {
        // Made by `zipfile` of Python 3.11, as on system 0, where a file has the attribute 0x20.
        let expected = "504b03041400000800000000210086a61036050000000500000007000000c3a42e7465787468656c6c6f504b010214001400\
                        000800000000210086a610360500000005000000070000000000000000002000000000000000c3a42e74657874504b05060000000001000100350000002a0000000000";
        let bytes = archive("ä.text", b"hello").unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected);
        assert_eq!(archive(&"a".repeat(1 << 16), b""), None);
    }
}
