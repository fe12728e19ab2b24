//! Stop sequences.
//!
//! I1. The answer ends before the first complete stop sequence; of several that end at the same position, the longest counts. I2. The
//! result does not depend on how the text is split. I3. Only a possible start of a stop sequence is held back.

use std::borrow::Cow;

/// Searches a text for stop sequences.
#[derive(Debug)]
pub struct StopScanner {
    /// Longest first.
    stops: Vec<String>,
    held: String,
    is_stopped: bool,
}

impl StopScanner {
    /// A scanner for these; empty ones are ignored.
    #[must_use]
    pub fn new(stops: &[String]) -> Self {
        let mut stops: Vec<String> = stops.iter().filter(|stop| !stop.is_empty()).cloned().collect();
        stops.sort_by_key(|stop| std::cmp::Reverse(stop.len()));
        Self { stops, held: String::new(), is_stopped: false }
    }

    /// Takes text, and returns the part that certainly belongs to the answer; nothing after the end.
    pub fn push<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        if self.is_stopped {
            return "".into();
        }
        if self.stops.is_empty() {
            return text.into();
        }
        let mut released = String::new();
        for char in text.chars() {
            self.held.push(char);
            if let Some(stop) = self.stops.iter().find(|stop| self.held.ends_with(stop.as_str())) {
                released.push_str(&self.held[..self.held.len() - stop.len()]);
                self.held.clear();
                self.is_stopped = true;
                return released.into();
            }
            let sure = self.held.len() - self.longest_beginning();
            released.extend(self.held.drain(..sure));
        }
        released.into()
    }

    /// Whether there are no stop sequences.
    pub(crate) fn is_idle(&self) -> bool {
        self.stops.is_empty()
    }

    /// Whether a stop sequence was found.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// The text that was held back, at the end.
    #[must_use]
    pub fn end(self) -> String {
        self.held
    }

    /// Length of the held text's suffix that starts a stop sequence.
    fn longest_beginning(&self) -> usize {
        let starts = self.held.char_indices().map(|(at, _)| at);
        let is_beginning = |at: &usize| self.stops.iter().any(|stop| stop.starts_with(&self.held[*at..]));
        starts.into_iter().find(is_beginning).map_or(0, |at| self.held.len() - at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (String, bool) {
        let stops: Vec<String> = stops.iter().map(|stop| (*stop).to_owned()).collect();
        let mut scanner = StopScanner::new(&stops);
        let mut text: String = pieces.iter().map(|piece| scanner.push(piece)).collect();
        let is_stopped = scanner.is_stopped();
        text += &scanner.end();
        (text, is_stopped)
    }

    fn check(stops: &[&str], pieces: &[&str], expected: &str, stopped: bool) {
        assert_eq!(run(stops, pieces), (expected.to_owned(), stopped), "{stops:?} {pieces:?}");
    }

    #[test]
    fn scanner_stops_before_the_first_stop() {
        check(&[], &["a", "b"], "ab", false);
        check(&[""], &["ab"], "ab", false);
        check(&["."], &["One. Two."], "One", true);
        check(&["END", "N"], &["the E", "ND"], "the E", true);
        check(&["ND", "END"], &["the E", "ND"], "the ", true);
        check(&["aab"], &["aa", "aab!"], "aa", true);
        check(&["##"], &["a#", "b", "#"], "a#b#", false);
        check(&["ä!"], &["xä", "!y"], "x", true);
    }

    #[test]
    fn only_a_possible_stop_is_held_back() {
        let mut scanner = StopScanner::new(&["STOP".to_owned()]);
        assert_eq!(scanner.push("abST"), "ab");
        assert_eq!(scanner.push("A"), "STA");
        assert_eq!(scanner.push("STOPx"), "");
        assert_eq!(scanner.push("more"), "");
        assert_eq!(scanner.end(), "");
    }

    proptest! {
        /// I1, I2.
        #[test]
        fn pieces_do_not_change_the_result(text in "[abä]{0,30}", stops in proptest::collection::vec("[abä]{1,3}", 0..4), cut in 1..5usize) {
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            let chars: Vec<char> = text.chars().collect();
            let pieces: Vec<String> = chars.chunks(cut).map(|chars| chars.iter().collect()).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let ends = text.char_indices().map(|(at, char)| at + char.len_utf8());
            let mut first = ends.filter_map(|end| {
                let done = stops.iter().filter(|stop| text[..end].ends_with(**stop));
                done.map(|stop| end - stop.len()).min()
            });
            let expected = first.next().map_or((text.clone(), false), |at| (text[..at].to_owned(), true));
            prop_assert_eq!(run(&stops, &pieces), expected);
        }
    }
}
