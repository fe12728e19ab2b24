//! The text of one file, and places in it.
//!
//! I1. A [`Span`] always lies inside its source and on character boundaries.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use miette::{NamedSource, SourceSpan};

/// Longest line that is shown around a place, in bytes.
const LONGEST_SHOWN: usize = 2_000;

/// A place in a source: byte offset and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Span {
    /// In bytes.
    pub start: usize,
    /// In bytes.
    pub len: usize,
}

impl Span {
    pub(crate) fn end(self) -> usize {
        self.start + self.len
    }
}

impl From<Span> for SourceSpan {
    fn from(span: Span) -> Self {
        Self::new(span.start.into(), span.len)
    }
}

/// A file as read.
#[derive(Debug)]
pub struct Source {
    /// Path for display, as the user wrote it.
    pub(crate) shown: String,
    /// The folder that relative paths start from.
    pub(crate) folder: PathBuf,
    /// Absolute path of the file.
    pub(crate) path: PathBuf,
    pub(crate) text: Arc<str>,
    named: NamedSource<Arc<str>>,
}

impl Source {
    /// A text, with the displayed and the real path of its file.
    #[must_use]
    pub fn new(shown: &Path, path: PathBuf, text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        let shown = shown.display().to_string();
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        let named = NamedSource::new(&shown, Arc::clone(&text)).with_language("yaml");
        Self { shown, folder, path, text, named }
    }

    pub(crate) fn named(&self) -> &NamedSource<Arc<str>> {
        &self.named
    }

    /// Span of the whole text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text of a span.
    #[must_use]
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.start..span.end()).unwrap_or_default()
    }

    /// A span clamped into the text, so that a location of the parser can never be out of bounds (I1).
    pub(crate) fn clamp(&self, start: usize, len: usize) -> Span {
        let floor = |mut at: usize| {
            at = at.min(self.text.len());
            while !self.text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let end = floor(start.saturating_add(len));
        let start = floor(start);
        Span { start, len: end.saturating_sub(start) }
    }

    /// A span that can be underlined. The parser gives block lists and maps none; their first word stands for
    /// them.
    pub(crate) fn visible(&self, span: Span) -> Span {
        if span.len > 0 {
            return span;
        }
        let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        let rest = self.text.get(span.start..).unwrap_or_default();
        let len = rest.find(|c| !word(c)).unwrap_or(rest.len());
        Span { start: span.start, len }
    }

    /// Line and column, both from 1; columns count characters.
    #[must_use]
    pub fn line_column(&self, span: Span) -> (usize, usize) {
        let before = &self.text[..self.clamp(span.start, 0).start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// Whether a line of these spans, or an adjacent line, is too long to read, such as a row of data.
    pub(crate) fn is_long_at(&self, spans: impl Iterator<Item = Span>) -> bool {
        let line_start = |at: usize| self.text[..at].rfind('\n').map_or(0, |end| end + 1);
        let line_end = |at: usize| self.text[at..].find('\n').map_or(self.text.len(), |end| at + end);
        spans.map(|span| self.clamp(span.start, span.len)).any(|span| {
            let from = line_start(line_start(span.start).saturating_sub(1));
            let to = line_end((line_end(span.end()) + 1).min(self.text.len()));
            self.text[from..to].split('\n').any(|line| line.len() > LONGEST_SHOWN)
        })
    }

    /// The byte offset of a line and column, both from 1.
    pub(crate) fn offset(&self, line: usize, column: usize) -> usize {
        let start: usize = self.text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
        let rest = &self.text[start.min(self.text.len())..];
        start + rest.chars().take(column.saturating_sub(1)).map(char::len_utf8).sum::<usize>()
    }

    /// The part of a span that a range of the parsed text came from.
    ///
    /// Quotes, escapes and the indentation of block scalars stand between the two, so the wanted piece is
    /// looked up by its text: the occurrence with the same number of equal pieces before it. The whole span
    /// when that fails.
    pub(crate) fn locate(&self, whole: Span, parsed: &str, wanted: Range<usize>) -> Span {
        let Some(piece) = parsed.get(wanted.clone()).map(str::trim).filter(|piece| !piece.is_empty()) else {
            return whole;
        };
        let skipped = parsed[..wanted.start].matches(piece).count();
        let area = self.area(whole);
        match self.slice(area).match_indices(piece).nth(skipped) {
            Some((at, _)) => Span { start: area.start + at, len: piece.len() },
            None => whole,
        }
    }

    /// The part of a span in which a template names a variable, or all of it.
    pub(crate) fn locate_name(&self, whole: Span, name: &str) -> Span {
        let area = self.area(whole);
        let text = self.slice(area);
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let mut inside_from = 0;
        while let Some(open) = text[inside_from..].find("{{").or_else(|| text[inside_from..].find("{%")) {
            let from = inside_from + open;
            let to = text[from..]
                .find("}}")
                .or_else(|| text[from..].find("%}"))
                .map_or(text.len(), |close| from + close + 2);
            for (at, _) in text[from..to].match_indices(name) {
                let at = from + at;
                let before = text[..at].chars().next_back();
                let after = text[at + name.len()..].chars().next();
                if !before.is_some_and(|c| is_word(c) || c == '.') && !after.is_some_and(is_word) {
                    return Span { start: area.start + at, len: name.len() };
                }
            }
            inside_from = to;
        }
        whole
    }

    /// The key inside a list or map that a JSON pointer (RFC 6901) ends with, or all of it. The pointer must lead
    /// somewhere in what was written.
    pub(crate) fn locate_pointer(&self, whole: Span, pointer: &str) -> Span {
        let area = self.area(whole);
        let mut from = 0;
        let mut found = whole;
        for key in pointer.split('/').skip(1).map(|key| key.replace("~1", "/").replace("~0", "~")) {
            // Entries of lists do not have keys.
            if key.is_empty() || key.bytes().all(|byte| byte.is_ascii_digit()) {
                continue;
            }
            let text = self.slice(area);
            let is_key = |at: usize| {
                let before = text[..at].trim_end_matches(['"', '\'']).chars().next_back();
                let after = text[at + key.len()..].trim_start_matches(['"', '\'']);
                before.is_none_or(|c| c.is_whitespace() || matches!(c, '{' | ',')) && after.starts_with(':')
            };
            let Some(at) = text[from..].match_indices(&key).map(|(at, _)| from + at).find(|&at| is_key(at))
            else {
                return found;
            };
            from = at + key.len();
            found = Span { start: area.start + at, len: key.len() };
        }
        found
    }

    /// The whole span of a list or map, for which the parser returns only the first character or nothing.
    fn area(&self, span: Span) -> Span {
        let rest = self.text.get(span.start..).unwrap_or_default();
        if span.len > 1 || (span.len == 1 && !rest.starts_with(['[', '{'])) {
            return span;
        }
        let len = if rest.starts_with(['[', '{']) { brackets(rest) } else { self.block(span.start) };
        Span { start: span.start, len }
    }

    /// Bytes of a block that starts here: lines that are indented no less, and blank ones between them.
    fn block(&self, start: usize) -> usize {
        let line_start = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let column = start - line_start;
        let mut len = 0;
        for (at, line) in self.text[start..].split_inclusive('\n').enumerate() {
            let indent = line.len() - line.trim_start().len();
            if at > 0 && !line.trim().is_empty() && indent < column {
                break;
            }
            len += line.len();
        }
        len
    }
}

/// Bytes up to the bracket that closes the first one. Brackets in quoted texts do not count; a quote opens a text only
/// where a value may begin.
fn brackets(text: &str) -> usize {
    let mut depth = 0usize;
    let mut quote = None;
    let mut escaped = false;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some('"'), '\\') if !escaped => {
                escaped = true;
                continue;
            }
            (Some(open), c) if c == open && !escaped => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') if matches!(before, '{' | '[' | ',' | ':') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => {
                depth -= 1;
                if depth == 0 {
                    return at + c.len_utf8();
                }
            }
            (None, _) => {}
        }
        escaped = false;
        if !c.is_whitespace() {
            before = c;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::new(Path::new("s.yaml"), PathBuf::from("s.yaml"), text)
    }

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let source = source("é: 1\nb: ü x\n");
        let at = source.text.find('x').unwrap_or_default();
        assert_eq!(source.line_column(Span { start: at, len: 1 }), (2, 6));
        assert_eq!(source.offset(2, 6), at);
        assert_eq!(source.line_column(Span::default()), (1, 1));
    }

    #[test]
    fn lines_that_nobody_reads_are_known_with_those_next_to_them() {
        let long = "x".repeat(LONGEST_SHOWN + 1);
        let source = source(&format!("a\nb\n{long}\nc\nd"));
        let at = |c: char| Span { start: source.text.find(c).unwrap_or_default(), len: 1 };
        let is_long = |c: char| source.is_long_at([at(c)].into_iter());
        assert_eq!(['a', 'b', 'x', 'c', 'd'].map(is_long), [false, true, true, true, false]);
        assert!(!source.is_long_at([Span { start: source.text.len(), len: 9 }].into_iter()));
    }

    #[test]
    fn spans_are_clamped_into_the_text() {
        let source = source("é");
        assert_eq!(source.clamp(1, 1), Span { start: 0, len: 2 });
        assert_eq!(source.clamp(9, 9), Span { start: 2, len: 0 });
    }

    #[test]
    fn pieces_are_found_behind_quotes_and_indentation() {
        let text = "a: 'x {{ y }} {{ y | z }}'";
        let whole = Span { start: 3, len: text.len() - 3 };
        let parsed = "x {{ y }} {{ y | z }}";
        let found = source(text).locate(whole, parsed, 13..18);
        assert_eq!(&text[found.start..found.end()], "y | z");
        let found = source(text).locate_name(whole, "z");
        assert_eq!(&text[found.start..found.end()], "z");
        assert_eq!(source(text).locate_name(whole, "x"), whole);
    }

    fn check_pointer(text: &str, from: &str, len: usize, pointer: &str, expected: &str) {
        let whole = Span { start: text.find(from).unwrap_or_default(), len };
        let source = source(text);
        let found = source.locate_pointer(whole, pointer);
        // A match begins a line or follows a space, so the rest of the line identifies it.
        let line = source.text[found.start..].lines().next().unwrap_or_default();
        assert_eq!(line, expected, "{pointer} in {text}");
    }

    #[test]
    fn pointers_lead_to_keys() {
        let block = "a:\n  type: object\n  properties:\n    type: { type: \"}\" }\n    b:\n      type: strin\nlater: 1\n";
        check_pointer(block, "type: object", 0, "/properties/b/type", "type: strin");
        check_pointer(block, "type: object", 0, "/properties/type", "type: { type: \"}\" }");
        check_pointer(block, "type: object", 0, "/later", "type: object");
        let flow = "a: { x: [{ 'b': \"it's } b: 1\" }, { b: 2 }], c: don't }\nd: { c: 4 }\n";
        check_pointer(flow, "{ x", 1, "/x/0/b", "b': \"it's } b: 1\" }, { b: 2 }], c: don't }");
        check_pointer(flow, "{ x", 1, "/c", "c: don't }");
        check_pointer(flow, "{ x", 1, "/d", "{ x: [{ 'b': \"it's } b: 1\" }, { b: 2 }], c: don't }");
    }
}
