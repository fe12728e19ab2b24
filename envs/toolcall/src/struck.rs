//! Texts without the values of secrets.
//!
//! S1. A value goes in every spelling that is known: as it is, with the escapes of JSON, in percent-encoding, either of
//! them several times over.
//! S2. Where a text was cut off, a part of a value goes that stands at that edge, from [`LEAST_PART`] characters on.
//! S3. Where values overlap, all that they cover goes; one that is a part of another has no mark of its own.
//!
//! Not found: a value in base64, with the entities of HTML, or in pieces that whoever says it made. Pure; nothing to
//! cancel.

use std::fmt;
use std::ops::Range;

use clawrl_core::Fault;
use serde_json::Value;

/// Shorter values are placeholders that services without keys are given; striking such a word out of every text would
/// damage the texts.
const LEAST_STRUCK: usize = 8;

/// Characters of a value that are told from other text at an edge. Fewer are left, and tell little.
const LEAST_PART: usize = 4;

/// Backslashes before an escape: those of a text of JSON in JSON in JSON in JSON.
const MOST_SLASHES: usize = 16;

/// Bytes of a character in percent-encoding three times over, the longest spelling that is found torn in two.
const LONGEST_SPELLING: usize = 32;

/// What is struck out, by the names of the variables.
#[derive(Clone, Default)]
pub(crate) struct Struck(Vec<(String, Vec<char>)>);

/// Where a text was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Nowhere,
    AtEnd,
    AtBoth,
}

/// How far a value goes from a place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Nowhere,
    /// All of it, to here.
    Whole(usize),
    /// To the end of the text, which comes after this many of its characters.
    Part(usize),
}

impl Struck {
    /// Of the names of variables and their values.
    pub(crate) fn new(values: impl IntoIterator<Item = (String, String)>) -> Self {
        // White space around a value is not sent, and would keep it from being found.
        let values = values.into_iter().map(|(name, value)| (name, value.trim().to_owned()));
        let long = values.filter(|(_, value)| value.len() >= LEAST_STRUCK);
        let mut values: Vec<_> = long.map(|(name, value)| (name, value.chars().collect())).collect();
        values.sort();
        values.dedup();
        Self(values)
    }

    /// Strikes secrets out of a text.
    pub(crate) fn clean(&self, text: &mut String) {
        self.strike(text, Cut::Nowhere);
    }

    /// Strikes secrets out of the beginning of a text, whose end was cut off.
    pub(crate) fn clean_head(&self, text: &mut String) {
        self.strike(text, Cut::AtEnd);
    }

    /// Strikes secrets out of a piece of a text, whose both ends were cut off.
    pub(crate) fn clean_piece(&self, text: &mut String) {
        self.strike(text, Cut::AtBoth);
    }

    /// Strikes secrets out of the texts and the names in a document.
    pub(crate) fn clean_json(&self, document: &mut Value) {
        match document {
            Value::String(text) => self.clean(text),
            Value::Array(entries) => entries.iter_mut().for_each(|entry| self.clean_json(entry)),
            Value::Object(fields) => {
                let clean = |(mut name, mut value): (String, Value)| {
                    self.clean(&mut name);
                    self.clean_json(&mut value);
                    (name, value)
                };
                *fields = std::mem::take(fields).into_iter().map(clean).collect();
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Strikes secrets out of what is told of a fault.
    pub(crate) fn fault(&self, mut fault: Fault) -> Fault {
        self.clean(&mut fault.message);
        fault
    }

    fn strike(&self, text: &mut String, cut: Cut) {
        let mut found: Vec<(Range<usize>, &str)> = Vec::new();
        for (name, value) in &self.0 {
            found.extend(stretches(text, value, cut).into_iter().map(|range| (range, name.as_str())));
        }
        found.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
        let mut gone: Vec<(Range<usize>, Vec<&str>)> = Vec::new();
        for (range, name) in found {
            match gone.last_mut() {
                Some((last, _)) if range.end <= last.end => {}
                Some((last, names)) if range.start < last.end => {
                    last.end = range.end;
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
                _ => gone.push((range, vec![name])),
            }
        }
        for (range, names) in gone.into_iter().rev() {
            let marks: String = names.iter().map(|name| format!("[{name}]")).collect();
            text.replace_range(range, &marks);
        }
    }
}

impl fmt::Debug for Struck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// Where a value stands in a text. Stretches may overlap.
fn stretches(text: &str, value: &[char], cut: Cut) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    if cut == Cut::AtBoth {
        found.extend(rest_of(text, value).map(|end| 0..end));
    }
    let Some(first) = value.first() else { return found };
    let may_begin = |byte: u8| {
        byte == b'\\' || byte == b'%' || first.encode_utf8(&mut [0; 4]).as_bytes().first() == Some(&byte)
    };
    for at in text.bytes().enumerate().filter_map(|(at, byte)| may_begin(byte).then_some(at)) {
        match reach(text, at, value) {
            Reach::Whole(end) => found.push(at..end),
            Reach::Part(count) if cut != Cut::Nowhere && count >= LEAST_PART => found.push(at..text.len()),
            Reach::Part(_) | Reach::Nowhere => {}
        }
    }
    found
}

/// The end of what a text begins with of a value that began before it.
fn rest_of(text: &str, value: &[char]) -> Option<usize> {
    let begin = |at: usize| text.is_char_boundary(at) && text[..at].chars().all(is_of_spelling);
    let starts = (0..=LONGEST_SPELLING.min(text.len())).filter(|&at| begin(at));
    let ends = starts.flat_map(|at| {
        let rests = (1..value.len()).map(move |skipped| &value[skipped..]);
        rests.filter_map(move |rest| match reach(text, at, rest) {
            Reach::Whole(end) if rest.len() >= LEAST_PART => Some(end),
            Reach::Part(count) if count >= LEAST_PART => Some(text.len()),
            _ => None,
        })
    });
    ends.max()
}

/// Follows a value from a place in a text, in every spelling at once.
fn reach(text: &str, at: usize, value: &[char]) -> Reach {
    let mut places = vec![at];
    let mut part = None;
    for (count, &character) in value.iter().enumerate() {
        let mut next = Vec::new();
        for &place in &places {
            let rest = &text[place..];
            if is_torn_off(rest) {
                part = Some(count);
            }
            spelled(character, rest, |length| next.push(place + length));
        }
        next.sort_unstable();
        next.dedup();
        if next.is_empty() {
            return part.map_or(Reach::Nowhere, Reach::Part);
        }
        places = next;
    }
    places.last().map_or(Reach::Nowhere, |&end| Reach::Whole(end))
}

/// Whether this is nothing, or may be the beginning of one spelling.
fn is_torn_off(rest: &str) -> bool {
    let begins = rest.is_empty() || rest.starts_with(['\\', '%', '\u{fffd}']);
    begins && rest.len() <= LONGEST_SPELLING && rest.chars().all(is_of_spelling)
}

/// Whether a spelling may have this besides the character itself. What became of an incomplete character is one, too.
fn is_of_spelling(character: char) -> bool {
    matches!(character, '\\' | '%' | 'u' | '\u{fffd}') || character.is_ascii_hexdigit()
}

/// Tells the length of each spelling of a character with which a text begins.
fn spelled(character: char, text: &str, mut found: impl FnMut(usize)) {
    let mut bytes = [0; 4];
    let plain = character.encode_utf8(&mut bytes);
    if text.starts_with(&*plain) {
        found(plain.len());
    }
    match text.as_bytes().first() {
        Some(b'+') if character == ' ' => found(1),
        Some(b'%') => percent_encoded(plain, text).into_iter().for_each(found),
        Some(b'\\') => {
            let slashes = text.bytes().take(MOST_SLASHES).take_while(|&byte| byte == b'\\').count();
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
            utf16_units(character, escape).into_iter().for_each(|length| found(slashes + length));
        }
        _ => {}
    }
}

/// The length of a `u` with four digits, or of two such with backslashes in between.
fn utf16_units(character: char, escape: &str) -> Option<usize> {
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

/// The lengths of the bytes in percent-encoding, where `%25` may stand for each `%`.
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
    use clawrl_core::Boundary;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn struck(values: &[(&str, &str)]) -> Struck {
        Struck::new(values.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())))
    }

    fn check(values: &[(&str, &str)], cut: Cut, text: &str, expected: &str) {
        let mut found = text.to_owned();
        struck(values).strike(&mut found, cut);
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn s1_every_spelling_goes() {
        let odd = [("KEY", "a+b/\"c\\d\u{e9}\u{1f511}")];
        for spelled in [
            "a+b/\"c\\d\u{e9}\u{1f511}",
            r#"a+b/\"c\\d\u00e9\ud83d\udd11"#,
            r#"a\u002Bb\/\u0022c\\d\u00E9\uD83D\uDD11"#,
            r#"a+b\\/\\\"c\\\\d\\u00e9\\ud83d\\udd11"#,
            "a%2Bb%2F%22c%5Cd%C3%A9%F0%9F%94%91",
            "a%2bb%2f%22c%5cd%c3%a9%f0%9f%94%91",
            "a%252Bb%252F%2522c%255Cd%25C3%25A9%25F0%259F%2594%2591",
        ] {
            check(&odd, Cut::Nowhere, &format!("<{spelled}>"), "<[KEY]>");
        }
        check(&[("KEY", "one two three")], Cut::Nowhere, "one+two%20three", "[KEY]");
        check(&[("KEY", "50%25-off")], Cut::Nowhere, "50%25-off 50%2525-off", "[KEY] [KEY]");
        let others = r"a+b/ a+b/'c %zz \ud83d \\\\\\\\";
        check(&odd, Cut::Nowhere, others, others);
        check(&[("KEY", " abcdefgh\n"), ("SHORT", "EMPTY")], Cut::Nowhere, "abcdefgh EMPTY", "[KEY] EMPTY");
    }

    #[test]
    fn s2_parts_go_at_an_edge_that_was_cut() {
        let one = [("KEY", "abcd\"efgh")];
        check(&one, Cut::Nowhere, "efgh and abcd", "efgh and abcd");
        check(&one, Cut::AtEnd, "efgh and abcd", "efgh and [KEY]");
        check(&one, Cut::AtEnd, r"and abcd\u00", "and [KEY]");
        check(&one, Cut::AtEnd, "and abcd%2", "and [KEY]");
        check(&one, Cut::AtEnd, "and abc", "and abc");
        check(&one, Cut::AtEnd, "and abcd e", "and abcd e");
        check(&one, Cut::AtBoth, "efgh and abcd", "[KEY] and [KEY]");
        check(&one, Cut::AtBoth, "22efgh and", "[KEY] and");
        check(&one, Cut::AtBoth, "fgh and", "fgh and");
        check(&one, Cut::AtBoth, "cd\"ef", "[KEY]");
        check(&[("KEY", "clé-clé-clé")], Cut::AtEnd, "cl\u{e9}-cl\u{fffd}", "[KEY]");
    }

    #[test]
    fn s3_what_overlaps_goes_as_one() {
        let two = [("A", "abcdefgh"), ("B", "efghijkl")];
        check(&two, Cut::Nowhere, "<abcdefghijkl>", "<[A][B]>");
        check(&two, Cut::AtEnd, "<abcdefghij", "<[A][B]");
        check(&[("KEY", "abcdefgh"), ("LONG", "abcdefgh-more")], Cut::Nowhere, "abcdefgh-more", "[LONG]");
        check(&[("KEY", "abababab")], Cut::Nowhere, "abababababX", "[KEY]X");
    }

    #[test]
    fn documents_and_faults_are_cleaned() {
        let struck = struck(&[("KEY", "abcdefgh")]);
        let mut schema =
            json!({"properties": {"abcdefgh": {"enum": ["abcdefgh", 1], "default": "x abcdefgh"}}});
        struck.clean_json(&mut schema);
        assert_eq!(schema, json!({"properties": {"[KEY]": {"enum": ["[KEY]", 1], "default": "x [KEY]"}}}));
        let fault = struck.fault(Fault::transient(Boundary::Env, "x", "abcdefgh"));
        assert_eq!(fault.message, "[KEY]");
        assert_eq!(format!("{struck:?}"), r#"["KEY"]"#);
    }

    /// Eight consecutive characters of a value that are still there, in this spelling.
    fn shown(text: &str, value: &str, spell: impl Fn(&str) -> String) -> Option<String> {
        let characters: Vec<char> = value.chars().collect();
        let eights = characters.windows(8).map(|eight| spell(&eight.iter().collect::<String>()));
        eights.into_iter().find(|eight| text.contains(eight.as_str()))
    }

    fn as_json(text: &str) -> String {
        let quoted = serde_json::to_string(text).unwrap();
        quoted[1..quoted.len() - 1].to_owned()
    }

    /// As Python writes it.
    fn as_ascii_json(text: &str) -> String {
        let unit = |c: char| match c {
            c if c.is_ascii() => as_json(c.encode_utf8(&mut [0; 4])),
            c => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
        };
        text.chars().map(unit).collect()
    }

    fn as_url(text: &str) -> String {
        let byte = |byte: u8| match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        };
        text.bytes().map(byte).collect()
    }

    const SPELLINGS: [fn(&str) -> String; 6] = [
        str::to_owned,
        as_json,
        |text| as_json(&as_json(text)),
        as_ascii_json,
        as_url,
        |text| as_url(&as_url(text)),
    ];

    proptest! {
        /// S1 and S2: a value anywhere in a text, which is cut anywhere.
        #[test]
        fn s1_s2_no_cut_shows_eight_characters(
            value in "[ab\"\\\\/%+\u{e9}\u{1f511}][ab0-9\"\\\\/%+ \u{e9}\u{1f511}]{6,20}[ab/]",
            spelling in 0..SPELLINGS.len(),
            (before, between, after) in ("[xyz \n]{0,20}", "[xyz \n]{1,20}", "[xyz \n]{0,20}"),
            (start, end) in (0usize..200, 0usize..200),
        ) {
            let spell = SPELLINGS[spelling];
            let spelled = spell(&value);
            let text = format!("{before}{spelled}{between}{spelled}{after}");
            let struck = struck(&[("KEY", &value)]);
            let (start, end) = (start % (text.len() + 1), end % (text.len() + 1));
            let pieces = [
                (0..text.len(), Cut::Nowhere),
                (0..end, Cut::AtEnd),
                (start..text.len(), Cut::AtBoth),
                (start.min(end)..start.max(end), Cut::AtBoth),
            ];
            for (range, cut) in pieces {
                let mut piece = String::from_utf8_lossy(&text.as_bytes()[range]).into_owned();
                struck.strike(&mut piece, cut);
                let left = shown(&piece, &value, spell);
                prop_assert_eq!(left, None, "{:?} of {:?}", piece, text);
            }
        }

        /// Other text stays.
        #[test]
        fn other_text_stays(text in "[c-z0-9%\\\\ \n]{0,80}") {
            for cut in [Cut::Nowhere, Cut::AtEnd, Cut::AtBoth] {
                let mut cleaned = text.clone();
                struck(&[("KEY", "ABABABAB")]).strike(&mut cleaned, cut);
                prop_assert_eq!(&cleaned, &text);
            }
        }
    }
}
