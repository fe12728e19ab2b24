//! Selection of tasks: patterns of ids, and limits that are spread over families.

/// Patterns, and which of them matched something.
#[derive(Debug)]
pub(crate) struct Selection<'a> {
    patterns: Vec<(&'a str, bool)>,
}

impl<'a> Selection<'a> {
    pub(crate) fn new(patterns: &'a [String]) -> Self {
        Self { patterns: patterns.iter().map(|pattern| (pattern.as_str(), false)).collect() }
    }

    /// Whether a task is selected: there are no patterns, or a pattern matches one of the four forms of the task's id.
    pub(crate) fn takes(&mut self, suite: &str, family: &str, index: Option<usize>) -> bool {
        if self.patterns.is_empty() {
            return true;
        }
        let mut ids = vec![family.to_owned(), format!("{suite}/{family}")];
        if let Some(index) = index {
            ids.push(format!("{family}#{index}"));
            ids.push(format!("{suite}/{family}#{index}"));
        }
        let mut takes = false;
        for (pattern, matched) in &mut self.patterns {
            if ids.iter().any(|id| matches(pattern, id)) {
                *matched = true;
                takes = true;
            }
        }
        takes
    }

    /// Patterns that matched nothing so far.
    pub(crate) fn unused(&self) -> impl Iterator<Item = &str> {
        self.patterns.iter().filter(|(_, matched)| !matched).map(|(pattern, _)| *pattern)
    }
}

/// Whether a pattern, in which `*` matches any text, matches the whole text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

/// Keeps at most `limit` entries in all, taking the first of every row, then the second, and so on.
pub(crate) fn spread_evenly<T>(rows: &mut [Vec<T>], limit: usize) {
    let mut keep = vec![0; rows.len()];
    let mut left = limit;
    while left > 0 {
        let before = left;
        for (kept, row) in keep.iter_mut().zip(rows.iter()) {
            if left > 0 && *kept < row.len() {
                *kept += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    for (row, kept) in rows.iter_mut().zip(keep) {
        row.truncate(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        for text in matching {
            assert!(matches(pattern, text), "{pattern} should match {text}");
        }
        for text in others {
            assert!(!matches(pattern, text), "{pattern} should not match {text}");
        }
    }

    #[test]
    fn stars_stand_for_any_text() {
        check("copy", &["copy"], &["copy-line", "xcopy", ""]);
        check("copy*", &["copy", "copy-line"], &["xcopy"]);
        check("*#3", &["a#3", "s/a#3"], &["a#33", "a#3x"]);
        check("a*b*c", &["abc", "axxbxxc", "abbc"], &["ac", "abcx", "acb"]);
        check("*", &["", "anything"], &[]);
        check("ab*ba", &["abba", "abxba"], &["aba"]);
    }

    #[test]
    fn limits_are_spread_over_rows() {
        let spread = |sizes: &[usize], limit| {
            let mut rows: Vec<Vec<()>> = sizes.iter().map(|&size| vec![(); size]).collect();
            spread_evenly(&mut rows, limit);
            rows.iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(spread(&[5, 1, 3], 6), [3, 1, 2]);
        assert_eq!(spread(&[5, 5, 5], 2), [1, 1, 0]);
        assert_eq!(spread(&[1, 1], 9), [1, 1]);
        assert_eq!(spread(&[0, 0], 3), [0, 0]);
    }
}
