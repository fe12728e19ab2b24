//! The requested part of a file (RFC 9110, 14.2). Deviation: a request for several parts gets the whole file.

/// The part of a file to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Span {
    Whole,
    /// This many bytes from there; never empty.
    Part {
        start: u64,
        length: u64,
    },
    Beyond,
}

/// Parses a `range` header for a file of this length.
pub(super) fn span(header: Option<&str>, length: u64) -> Span {
    let Some((first, last)) = header.and_then(|header| header.strip_prefix("bytes=")?.split_once('-')) else {
        return Span::Whole;
    };
    let (first, last) = (first.trim(), last.trim());
    let part = |start: u64, end: u64| match end.min(length).checked_sub(start) {
        None | Some(0) => Span::Beyond,
        Some(length) => Span::Part { start, length },
    };
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => part(first, last.saturating_add(1)),
        (Some(first), None) if last.is_empty() => part(first, length),
        (None, Some(last)) if first.is_empty() => part(length.saturating_sub(last), length),
        _ => Span::Whole,
    }
}

/// Digits only; a number beyond any file's length is treated as the largest.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, length: u64, expected: Span) {
        assert_eq!(span(Some(header), length), expected, "{header} of {length}");
    }

    #[test]
    fn parts_are_cut_to_the_file() {
        check("bytes=0-0", 10, Span::Part { start: 0, length: 1 });
        check("bytes=2-5", 10, Span::Part { start: 2, length: 4 });
        check("bytes=2-", 10, Span::Part { start: 2, length: 8 });
        check("bytes=2-99999999999999999999999", 10, Span::Part { start: 2, length: 8 });
        check("bytes=-3", 10, Span::Part { start: 7, length: 3 });
        check("bytes=-30", 10, Span::Part { start: 0, length: 10 });
        check("bytes=10-", 10, Span::Beyond);
        check("bytes=-0", 10, Span::Beyond);
        check("bytes=0-", 0, Span::Beyond);
    }

    #[test]
    fn invalid_range_is_ignored() {
        for header in ["bytes=5-2", "bytes=-", "bytes=a-b", "lines=1-2", "bytes=0-1,3-4", "bytes=+1-2", ""] {
            check(header, 10, Span::Whole);
        }
        assert_eq!(span(None, 10), Span::Whole);
    }
}
