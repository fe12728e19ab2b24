//! Finds a value in a text, in all spellings of [`crate`]'s I1.
//!
//! A text is stored as it was seen: as JSON, as JSON inside JSON, as a part of a URL, or as a terminal drew it. So each
//! character is also found as its escape, behind any number of backslashes, and in percent-encoding; and between two
//! characters there may be what a terminal inserts, a line end or control sequences. The number of such spellings has no
//! bound, so a search for a list of texts (Aho-Corasick) does not find them all: the value is followed character by
//! character, through all of its spellings at once.

use std::ops::Range;

use memchr::memchr3_iter;

/// Shortest part of a value that is recognised at an edge, in characters. Fewer characters tell little.
const MIN_PART: usize = 4;

/// Bytes of a character in percent-encoding three times over, the longest spelling that is found torn in two.
const MAX_SPELLING: usize = 32;

/// Where a text was truncated before it was searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The text is whole.
    None,
    /// The end is missing.
    End,
    /// Beginning and end are missing.
    Both,
}

/// Match of a value from a place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// The text does not match.
    Nowhere,
    /// The whole value, which ends at this byte.
    Whole(usize),
    /// Number of first characters of the value that match before the text ends.
    Part(usize),
}

/// The byte ranges of a value in a text. They may overlap.
pub(crate) fn occurrences(text: &str, value: &[char], cut: Cut) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let Some(first) = value.first() else { return found };
    if cut == Cut::Both {
        found.extend(end_of_rest(text, value).map(|end| 0..end));
    }
    let bytes = text.as_bytes();
    let plain = first.encode_utf8(&mut [0; 4]).as_bytes()[0];
    for at in memchr3_iter(plain, b'\\', b'%', bytes) {
        // An escape begins with the first backslash of a run.
        if bytes[at] == b'\\' && at > 0 && bytes[at - 1] == b'\\' {
            continue;
        }
        match reach(text, at, value) {
            Reach::Whole(end) => found.push(at..end),
            Reach::Part(count) if cut != Cut::None && count >= MIN_PART => found.push(at..text.len()),
            Reach::Part(_) | Reach::Nowhere => {}
        }
    }
    found
}

/// End of the rest of a value that began before the text.
fn end_of_rest(text: &str, value: &[char]) -> Option<usize> {
    let may_begin = |at: usize| text.is_char_boundary(at) && text[..at].chars().all(is_in_spelling);
    let starts = (0..=MAX_SPELLING.min(text.len())).filter(|&at| may_begin(at));
    let ends = starts.flat_map(|at| {
        let rests = (1..value.len()).map(move |skipped| &value[skipped..]);
        rests.filter_map(move |rest| match reach(text, at, rest) {
            Reach::Whole(end) if rest.len() >= MIN_PART => Some(end),
            Reach::Part(count) if count >= MIN_PART => Some(text.len()),
            _ => None,
        })
    });
    ends.max()
}

/// Follows a value from a place in a text, through every spelling at once.
///
/// The time is linear in the text for each character of the value: of the places in one run of backslashes or line ends,
/// only the first is followed, since the others lead to no further places.
fn reach(text: &str, at: usize, value: &[char]) -> Reach {
    let mut places = vec![at];
    let mut part = None;
    for (count, &character) in value.iter().enumerate() {
        // Characters that a terminal inserts may also follow the value, so they do not make the end of the text a cut.
        if places.iter().any(|&place| is_torn(&text[place..])) {
            part = Some(count);
        }
        if count > 0 {
            skip_inserted(text, &mut places);
        }
        let mut next = Vec::new();
        let mut slashes = 0..0;
        for &place in &places {
            let rest = &text[place..];
            if slashes.contains(&place) {
                continue;
            }
            slashes = place..place + leading_slashes(rest);
            for_each_spelling(character, rest, slashes.len(), |length| next.push(place + length));
        }
        if next.is_empty() {
            return part.map_or(Reach::Nowhere, Reach::Part);
        }
        next.sort_unstable();
        next.dedup();
        places = next;
    }
    places.last().map_or(Reach::Nowhere, |&end| Reach::Whole(end))
}

/// Adds the places behind what a terminal inserts between two characters: line ends where the screen ends, and control
/// sequences (ECMA-48: parameters, intermediate bytes, a final byte).
fn skip_inserted(text: &str, places: &mut Vec<usize>) {
    let bytes = text.as_bytes();
    let reached = places.len();
    let mut skipped = 0;
    for index in 0..reached {
        let mut place = places[index];
        if place < skipped && matches!(bytes[place], b'\n' | b'\r') {
            continue;
        }
        while let Some(length) = inserted(&bytes[place..]) {
            place += length;
            places.push(place);
        }
        skipped = place;
    }
    if places.len() > reached {
        places.sort_unstable();
        places.dedup();
    }
}

/// Length of the line end or control sequence that these bytes begin with.
fn inserted(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [b'\n' | b'\r', ..] => Some(1),
        [b' ', b'\r', ..] => Some(2),
        [0x1b, b'[', sequence @ ..] => {
            let parameters = sequence.iter().take_while(|byte| (0x30..0x40).contains(*byte)).count();
            let more = &sequence[parameters..];
            let intermediates = more.iter().take_while(|byte| (0x20..0x30).contains(*byte)).count();
            matches!(more.get(intermediates), Some(0x40..=0x7e)).then_some(2 + parameters + intermediates + 1)
        }
        _ => None,
    }
}

/// Whether a spelling may be cut off here: the text ends, or ends with a possible beginning of an escape.
fn is_torn(rest: &str) -> bool {
    let may_be = rest.is_empty() || rest.starts_with(['\\', '%', '\u{fffd}']);
    may_be && rest.len() <= MAX_SPELLING && rest.chars().all(is_in_spelling)
}

/// Whether a spelling may hold this besides the character itself. An incomplete character, which became U+FFFD, may be one.
fn is_in_spelling(character: char) -> bool {
    matches!(character, '\\' | '%' | 'u' | '\u{fffd}') || character.is_ascii_hexdigit()
}

/// Calls `found` with the length of each spelling of a character that a text begins with, behind so many backslashes.
fn for_each_spelling(character: char, text: &str, slashes: usize, mut found: impl FnMut(usize)) {
    let mut bytes = [0; 4];
    let plain = character.encode_utf8(&mut bytes);
    if text.starts_with(&*plain) {
        found(plain.len());
    }
    match text.as_bytes().first() {
        Some(b'+') if character == ' ' => found(1),
        Some(b'%') => percent_encoded(plain, text).into_iter().for_each(found),
        Some(b'\\') => {
            if character == '\\' {
                (2..=slashes).for_each(&mut found);
            }
            let escape = &text[slashes..];
            let short = match character {
                '\n' => Some('n'),
                '\r' => Some('r'),
                '\t' => Some('t'),
                other => other.is_ascii_punctuation().then_some(other),
            };
            if short.is_some_and(|short| escape.starts_with(short)) {
                found(slashes + 1);
            }
            // A terminal shows a line end as two characters.
            if let ('\n', Some(after)) = (character, escape.strip_prefix('r')) {
                let more = leading_slashes(after);
                if more > 0 && after[more..].starts_with('n') {
                    found(slashes + 1 + more + 1);
                }
            }
            utf16_escapes(character, escape).into_iter().for_each(|length| found(slashes + length));
        }
        _ => {}
    }
}

fn leading_slashes(text: &str) -> usize {
    text.bytes().take_while(|&byte| byte == b'\\').count()
}

/// Length of `uXXXX`, or of two of them with backslashes between.
fn utf16_escapes(character: char, escape: &str) -> Option<usize> {
    let mut rest = escape;
    for (index, unit) in character.encode_utf16(&mut [0; 2]).iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('\\')?.trim_start_matches('\\');
        }
        let digits = rest.strip_prefix('u')?.get(..4)?;
        if u16::from_str_radix(digits, 16).ok()? != *unit {
            return None;
        }
        rest = &rest[5..];
    }
    Some(escape.len() - rest.len())
}

/// Lengths of a character's bytes in percent-encoding, where `%25` may stand for each `%`.
fn percent_encoded(plain: &str, text: &str) -> Vec<usize> {
    let mut places = vec![0];
    for byte in plain.bytes() {
        let mut next = Vec::new();
        for place in places {
            let Some(mut digits) = text[place..].strip_prefix('%') else { continue };
            loop {
                let is_it = digits.get(..2).and_then(|two| u8::from_str_radix(two, 16).ok()) == Some(byte);
                if is_it {
                    next.push(text.len() - digits.len() + 2);
                }
                match digits.strip_prefix("25") {
                    Some(deeper) => digits = deeper,
                    None => break,
                }
            }
        }
        places = next;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, text: &str, expected: bool) {
        let characters: Vec<char> = value.chars().collect();
        let found = occurrences(text, &characters, Cut::None);
        assert_eq!(!found.is_empty(), expected, "{value:?} in {text:?}");
    }

    #[test]
    fn json_escapes_are_found() {
        let value = "a\"b\\c/d\ne\u{e9}\u{1f511}";
        check(value, value, true);
        let mut nested = value.to_owned();
        for _ in 0..6 {
            nested = serde_json::to_string(&nested).unwrap();
            check(value, &nested, true);
        }
        check(value, r#"a\"b\\c\/d\ne\u00e9\ud83d\udd11"#, true);
        check(value, r#"a\"b\\c\/d\r\ne\u00e9\ud83d\udd11"#, true);
        check(value, r#"\u0061\u0022b\u005Cc\u002fd\u000ae\u00E9\uD83D\uDD11"#, true);
        check(value, &value.replace('d', "D"), false);
    }

    #[test]
    fn terminal_output_is_searched() {
        check("token-42", "tok\r\nen-42", true);
        check("token-42", "token-4 \r2", true);
        check("token-42", "t\x1b[31moken\x1b[0m-42", true);
        check("token-42", "t\x1b[31", false);
        check("token-42", "token 42", false);
        check("line\nend", "line\r\nend", true);
    }

    #[test]
    fn long_value_and_long_escape_run_are_searched() {
        check(&"k".repeat(4_096), &"k".repeat(4_095), false);
        check(&"k".repeat(4_096), &"k".repeat(4_096), true);
        check("\\\\\n\nkey", &format!("\\\\{}", "\n".repeat(1 << 20)), false);
        check("\\\\key-42", &"\\".repeat(1 << 20), false);
        check("\\key-42", &format!("{}key-42", "\\".repeat(1 << 20)), true);
    }
}
