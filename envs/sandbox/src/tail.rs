//! The end of a program's output.
//!
//! I1. Memory is bounded, whatever the program writes.
//! I2. The returned text contains no terminal control characters.

use std::collections::VecDeque;

use clawrl_core::printable;

const KEPT: usize = 4 * 1024;

/// The last 4 KiB.
#[derive(Debug, Default)]
pub struct Tail {
    kept: VecDeque<u8>,
    left_out: u64,
}

impl Tail {
    /// Appends what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        let fresh = &bytes[bytes.len().saturating_sub(KEPT)..];
        let surplus = (self.kept.len() + fresh.len()).saturating_sub(KEPT);
        self.kept.drain(..surplus);
        self.kept.extend(fresh);
        self.left_out += (surplus + bytes.len() - fresh.len()) as u64;
    }

    /// The text; an incomplete first line is left out if others follow.
    #[must_use]
    pub fn text(&self) -> String {
        let bytes: Vec<u8> = self.kept.iter().copied().collect();
        let whole = match bytes.iter().position(|&byte| byte == b'\n') {
            Some(end) if self.left_out > 0 && end + 1 < bytes.len() => &bytes[end + 1..],
            _ => &bytes,
        };
        printable(&String::from_utf8_lossy(whole)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(written: &[&str], expected: &str) {
        let mut tail = Tail::default();
        written.iter().for_each(|text| tail.push(text.as_bytes()));
        assert_eq!(tail.text(), expected);
        assert!(tail.kept.len() <= KEPT, "I1");
    }

    #[test]
    fn i1_i2_the_end_is_kept() {
        check(&[], "");
        check(&["one\n", "two"], "one\ntwo");
        check(&["\u{1b}[31mred\r\n"], "\\u{1b}[31mred\\r\n");
        let long = "x".repeat(KEPT);
        check(&["lost\n", &long, "\nlast\n"], "last\n");
        check(&[&long, "y"], &format!("{}y", "x".repeat(KEPT - 1)));
        check(&[&"ab".repeat(KEPT)], &"ab".repeat(KEPT / 2));
    }
}
