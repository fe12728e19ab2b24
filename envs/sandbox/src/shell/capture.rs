//! Keeps the head and the tail of an unbounded text, and cuts it for an observation.
//!
//! T1. Memory is bounded: the head's cap, and at most twice the tail's.
//! T2. A cut text has at most the requested number of characters, the marker included.
//! T3. The marker states exactly how many characters and lines are left out.
//! T4. The result does not depend on how the pushed text was split.
//!
//! Units: caps are bytes of UTF-8, budgets are characters. Pure; nothing to cancel.

use memchr::memchr_iter;

/// Collects text up to caps.
#[derive(Debug)]
pub(super) struct Capture {
    head: String,
    tail: String,
    head_cap: usize,
    tail_cap: usize,
    dropped_chars: u64,
    dropped_lines: u64,
}

impl Capture {
    /// `cap_bytes` is shared equally by head and tail.
    pub(super) fn new(cap_bytes: usize) -> Self {
        let head_cap = cap_bytes / 2;
        Self {
            head: String::new(),
            tail: String::new(),
            head_cap,
            tail_cap: cap_bytes - head_cap,
            dropped_chars: 0,
            dropped_lines: 0,
        }
    }

    pub(super) fn push(&mut self, text: &str) {
        let rest = if self.tail.is_empty() && self.dropped_chars == 0 {
            let fits = floor_boundary(text, self.head_cap.saturating_sub(self.head.len()));
            let (head, rest) = text.split_at(fits);
            self.head.push_str(head);
            rest
        } else {
            text
        };
        if rest.is_empty() {
            return;
        }
        self.tail.push_str(rest);
        if self.tail.len() > 2 * self.tail_cap {
            self.trim_tail();
        }
    }

    /// The text collected since the last call.
    pub(super) fn take(&mut self) -> Captured {
        if self.tail.len() > self.tail_cap {
            self.trim_tail();
        }
        Captured {
            head: std::mem::take(&mut self.head),
            tail: std::mem::take(&mut self.tail),
            dropped_chars: std::mem::take(&mut self.dropped_chars),
            dropped_lines: std::mem::take(&mut self.dropped_lines),
        }
    }

    fn trim_tail(&mut self) {
        let excess = self.tail.len().saturating_sub(self.tail_cap);
        let at = (excess..=self.tail.len()).find(|&at| self.tail.is_char_boundary(at)).unwrap_or(0);
        let dropped = &self.tail[..at];
        self.dropped_chars += dropped.chars().count() as u64;
        self.dropped_lines += count_lines(dropped);
        self.tail.drain(..at);
    }
}

/// A text whose middle may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Captured {
    head: String,
    tail: String,
    dropped_chars: u64,
    dropped_lines: u64,
}

/// A text cut for an observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CutText {
    /// At most `budget` characters.
    pub(super) text: String,
    /// The text before the cut, up to the capture's own caps. `None` when nothing was cut.
    pub(super) full: Option<String>,
}

impl Captured {
    /// Cuts to `budget` characters: half from the head, half from the tail, and a marker between them. A budget
    /// too small for the marker gives the first characters only.
    pub(super) fn cut(self, budget: usize) -> CutText {
        let whole = self.dropped_chars == 0;
        let mut joined = self.head;
        let head_len = joined.len();
        joined.push_str(&self.tail);
        // Every character takes at least one byte.
        if whole && (joined.len() <= budget || joined.chars().count() <= budget) {
            return CutText { text: joined, full: None };
        }
        // Without a gap, both ends may be taken from the whole text.
        let (head, tail) = if whole { (joined.as_str(), joined.as_str()) } else { joined.split_at(head_len) };
        let all_chars = joined.chars().count() as u64 + self.dropped_chars;
        let all_lines = count_lines(&joined) + self.dropped_lines;
        let room = budget.saturating_sub(marker(all_chars, all_lines).chars().count());
        let text = if room == 0 {
            first_chars(&joined, budget).to_owned()
        } else {
            let head = first_chars(head, room / 2);
            let tail = last_chars(tail, room - room / 2);
            let kept = (head.chars().count() + tail.chars().count()) as u64;
            let lines = all_lines - count_lines(head) - count_lines(tail);
            format!("{head}{}{tail}", marker(all_chars - kept, lines))
        };
        let full = if whole {
            joined
        } else {
            let (head, tail) = joined.split_at(head_len);
            format!("{head}{}{tail}", marker(self.dropped_chars, self.dropped_lines))
        };
        CutText { text, full: Some(full) }
    }
}

fn marker(chars: u64, lines: u64) -> String {
    format!("\n[... {chars} characters with {lines} line ends left out ...]\n")
}

fn count_lines(text: &str) -> u64 {
    memchr_iter(b'\n', text.as_bytes()).count() as u64
}

fn first_chars(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).map_or(text, |(at, _)| &text[..at])
}

fn last_chars(text: &str, count: usize) -> &str {
    match count.checked_sub(1) {
        None => "",
        Some(skip) => text.char_indices().nth_back(skip).map_or(text, |(at, _)| &text[at..]),
    }
}

/// The largest character boundary up to `at`.
pub(super) fn floor_boundary(text: &str, at: usize) -> usize {
    if at >= text.len() {
        return text.len();
    }
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn capture(pieces: &[&str], cap: usize) -> Captured {
        let mut capture = Capture::new(cap);
        for piece in pieces {
            capture.push(piece);
        }
        capture.take()
    }

    fn check(text: &str, cap: usize, budget: usize, expected: &str) {
        assert_eq!(capture(&[text], cap).cut(budget).text, expected);
    }

    #[test]
    fn keeps_head_and_tail() {
        check("short", 100, 5, "short");
        let text: String = (0..100).map(|number| format!("{number}\n")).collect();
        let cut = "0
1
2
3
4
5
6
[... 264 characters with 89 line ends left out ...]

96
97
98
99
";
        check(&text, 1_000, 80, cut);
        check(&text, 40, 80, cut);
        check("abcdefgh", 100, 4, "abcd");
    }

    proptest! {
        #[test]
        fn bounds_hold(pieces in proptest::collection::vec("[a-zé€𝄞\n]{0,40}", 0..12), cap in 2usize..80, budget in 0usize..200) {
            let text = pieces.concat();
            let split: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let captured = capture(&split, cap);
            // T4.
            prop_assert_eq!(&captured, &capture(&[&text], cap));
            // T1.
            prop_assert!(captured.head.len() + captured.tail.len() <= cap);
            let cut = captured.clone().cut(budget);
            // T2.
            prop_assert!(cut.text.chars().count() <= budget);
            prop_assert_eq!(cut.full.is_none(), cut.text == text && captured.dropped_chars == 0);
            // T3.
            if let Some((head, tail)) = cut.text.split_once("\n[... ").and_then(|(head, rest)| {
                Some((head, rest.split_once(" ...]\n")?))
            }) {
                let numbers: Vec<u64> = tail.0.split(' ').filter_map(|word| word.parse().ok()).collect();
                let all = text.chars().count() as u64;
                prop_assert_eq!(numbers[0], all - (head.chars().count() + tail.1.chars().count()) as u64);
                prop_assert_eq!(numbers[1], count_lines(&text) - count_lines(head) - count_lines(tail.1));
            }
        }
    }
}
