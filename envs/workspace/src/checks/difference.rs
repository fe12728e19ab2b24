//! Describes the first difference between two contents.

use super::quote::quote;

/// Characters shown of either side.
const SHOWN: usize = 60;

/// If fewer bytes of the line precede the difference, the line is shown from its start.
const LEAD: usize = 30;

/// `None` when they are equal.
pub(super) fn first_difference(expected: &[u8], found: &[u8]) -> Option<String> {
    if expected == found {
        return None;
    }
    if expected.strip_suffix(b"\n") == Some(found) {
        return Some("expected a final newline, found none".to_owned());
    }
    if found.strip_suffix(b"\n") == Some(expected) {
        return Some("expected no final newline, found one".to_owned());
    }
    if found.is_empty() {
        return Some(format!("expected {}, found nothing", quote(expected, SHOWN)));
    }
    let at = expected.iter().zip(found).take_while(|(a, b)| a == b).count();
    let common = &expected[..at];
    let line_start = common.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    let number = common.iter().filter(|&&byte| byte == b'\n').count() + 1;

    let start = if at - line_start <= LEAD { line_start } else { character_start(expected, at, line_start) };
    let place = match start - line_start {
        0 => format!("line {number}"),
        before => format!("line {number}, byte {}", before + 1),
    };
    let mut sides = [line(expected, start), line(found, start)];
    if sides[0] == sides[1] {
        // They differ after the line, so the following text is shown, too.
        sides = [line_with_end(expected, start), line_with_end(found, start)];
    }
    let [expected, found] = sides.map(|side| match side {
        [] => "its end".to_owned(),
        text => quote(text, SHOWN),
    });
    Some(format!("{place}: expected {expected}, found {found}"))
}

/// The nearest start of a UTF-8 character at or before `at`.
fn character_start(bytes: &[u8], at: usize, floor: usize) -> usize {
    let continues = |index: &usize| bytes.get(*index).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000);
    (floor..=at).rev().take(4).find(|index| !continues(index)).unwrap_or(at)
}

fn line_with_end(bytes: &[u8], start: usize) -> &[u8] {
    let rest = bytes.get(start..).unwrap_or_default();
    let end = rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |newline| newline + 1);
    &rest[..end]
}

fn line(bytes: &[u8], start: usize) -> &[u8] {
    let line = line_with_end(bytes, start);
    // An empty line is not the end of the content.
    if line == b"\n" { line } else { line.strip_suffix(b"\n").unwrap_or(line) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(expected: &str, found: &str, message: &str) {
        assert_eq!(
            first_difference(expected.as_bytes(), found.as_bytes()).as_deref().unwrap_or("equal"),
            message
        );
    }

    #[test]
    fn difference_names_place_and_content() {
        check("a\n", "a\n", "equal");
        check("x\na\n", "x\nb\n", r#"line 2: expected "a", found "b""#);
        check("a\n", "a", "expected a final newline, found none");
        check("a", "a\n", "expected no final newline, found one");
        check("a\n", "", r#"expected "a\n", found nothing"#);
        check("", "a", r#"line 1: expected its end, found "a""#);
        check("a\nb\n", "a\n", r#"line 2: expected "b", found its end"#);
        check("a\nb\n", "a", r#"line 1: expected "a\n", found "a""#);
        check("a\n", "a\n\n\n", r#"line 2: expected its end, found "\n""#);
        check("a\n", "a\r\n", r#"line 1: expected "a", found "a\r""#);
        let long = "é".repeat(40);
        check(&format!("{long}é!"), &format!("{long}è!"), r#"line 1, byte 81: expected "é!", found "è!""#);
        check(&"x".repeat(100), "y", &format!(r#"line 1: expected "{}…", found "y""#, "x".repeat(60)));
    }

    proptest! {
        #[test]
        fn difference_exists_iff_contents_differ(expected in "[a\n]{0,6}", found in "[a\n]{0,6}") {
            let message = first_difference(expected.as_bytes(), found.as_bytes());
            prop_assert_eq!(message.is_none(), expected == found);
            if let Some((expected, found)) = message.as_deref().and_then(|m| m.split_once(", found ")) {
                prop_assert!(!expected.ends_with(found), "both sides look alike: {:?}", message);
            }
        }
    }
}
