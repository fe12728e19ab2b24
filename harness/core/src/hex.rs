//! Hexadecimal text of bytes and hashes.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// Two lower-case hexadecimal digits per byte.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The SHA-256 of bytes in hexadecimal digits.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_two_digits() {
        assert_eq!(hex(&[0, 9, 0xab, 0xff]), "0009abff");
    }
}
