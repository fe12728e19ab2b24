//! Forms with files, as browsers send them (RFC 7578), read piece by piece: of files only the names are kept.
//!
//! M1. Memory is bounded by the caller's budget, a header's limit and a boundary, however long the body is.
//! M2. The result does not depend on how the body is split.
//!
//! Source: HTML, "multipart form data"; `"`, CR and LF in names are decoded as browsers encode them there, and a
//! backslash stands for itself.

use bytes::{Buf as _, BytesMut};
use memchr::memmem;

const HEADER_BYTES: usize = 8 << 10;
/// Maximum characters of a boundary, by RFC 2046.
const BOUNDARY_CHARS: usize = 70;

/// The boundary in the content type of such a form.
pub(super) fn boundary(content_type: &str) -> Option<&str> {
    let (kind, parameters) = content_type.split_once(';')?;
    let value = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.trim().split_once('=')?;
        name.eq_ignore_ascii_case("boundary").then(|| value.trim_matches('"'))
    })?;
    let is_form = kind.trim().eq_ignore_ascii_case("multipart/form-data");
    (is_form && (1..=BOUNDARY_CHARS).contains(&value.len())).then_some(value)
}

#[derive(Debug)]
pub(super) struct Multipart {
    delimiter: Vec<u8>,
    rest: BytesMut,
    state: State,
    fields: Vec<(String, String)>,
    /// Bytes and fields that may still be kept.
    room: (usize, usize),
    is_cut: bool,
}

#[derive(Debug)]
enum State {
    Preamble,
    /// After a delimiter, which may be the last.
    Delimited,
    Headers,
    /// In a field whose text is kept.
    Text {
        name: String,
        value: Vec<u8>,
    },
    /// In a file, or in a field without room.
    Skipped,
    End,
    /// Not a valid form.
    Broken,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Form {
    /// In the order of the body.
    pub(super) fields: Vec<(String, String)>,
    /// Whether some fields did not fit.
    pub(super) is_cut: bool,
}

impl Multipart {
    pub(super) fn new(boundary: &str, most_bytes: usize, most_fields: usize) -> Self {
        Self {
            delimiter: format!("\r\n--{boundary}").into_bytes(),
            // The first delimiter has no line before it.
            rest: BytesMut::from("\r\n"),
            state: State::Preamble,
            fields: Vec::new(),
            room: (most_bytes, most_fields),
            is_cut: false,
        }
    }

    /// Processes the next piece of the body.
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.rest.extend_from_slice(piece);
        while self.step() {}
    }

    /// The form, if it was complete.
    pub(super) fn finish(self) -> Option<Form> {
        matches!(self.state, State::End).then_some(Form { fields: self.fields, is_cut: self.is_cut })
    }

    /// Advances to the next state; `false` when that needs more of the body.
    fn step(&mut self) -> bool {
        match &mut self.state {
            State::Preamble | State::Skipped | State::Text { .. } => self.read_to_delimiter(),
            State::Delimited => {
                if self.rest.starts_with(b"--") {
                    self.end(State::End);
                } else if let Some(line) = memmem::find(&self.rest, b"\r\n") {
                    let is_blank = self.rest[..line].iter().all(|byte| matches!(byte, b' ' | b'\t'));
                    // The end of this line starts the headers, and also ends them if there are none.
                    self.rest.advance(line);
                    self.state = if is_blank { State::Headers } else { State::Broken };
                } else if self.rest.len() > HEADER_BYTES {
                    self.end(State::Broken);
                } else {
                    return false;
                }
                true
            }
            State::Headers => match memmem::find(&self.rest, b"\r\n\r\n") {
                Some(end) if end <= HEADER_BYTES => {
                    let headers = String::from_utf8_lossy(&self.rest[..end]).into_owned();
                    self.rest.advance(end + 4);
                    self.state = self.begin(&headers);
                    true
                }
                None if self.rest.len() <= HEADER_BYTES + 4 => false,
                _ => {
                    self.end(State::Broken);
                    true
                }
            },
            State::End | State::Broken => {
                self.rest.clear();
                false
            }
        }
    }

    /// How to read a field with these headers.
    fn begin(&mut self, headers: &str) -> State {
        let disposition = headers.split("\r\n").find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
        });
        let Some(name) = disposition.and_then(|line| parameter(line, "name")) else { return State::Broken };
        if let Some(file) = disposition.and_then(|line| parameter(line, "filename")) {
            self.keep(name, file);
            return State::Skipped;
        }
        State::Text { name, value: Vec::new() }
    }

    fn read_to_delimiter(&mut self) -> bool {
        let found = memmem::find(&self.rest, &self.delimiter);
        // A partial delimiter may be at the end.
        let read = found.unwrap_or_else(|| self.rest.len().saturating_sub(self.delimiter.len() - 1));
        if let State::Text { value, .. } = &mut self.state {
            if value.len() + read <= self.room.0 {
                value.extend_from_slice(&self.rest[..read]);
            } else {
                self.is_cut = true;
                self.state = State::Skipped;
            }
        }
        if found.is_none() {
            self.rest.advance(read);
            return false;
        }
        self.rest.advance(read + self.delimiter.len());
        if let State::Text { name, value } = std::mem::replace(&mut self.state, State::Delimited) {
            self.keep(name, String::from_utf8_lossy(&value).into_owned());
        }
        true
    }

    fn keep(&mut self, name: String, value: String) {
        let (bytes, fields) = self.room;
        match (bytes.checked_sub(name.len() + value.len()), fields.checked_sub(1)) {
            (Some(bytes), Some(fields)) => {
                self.room = (bytes, fields);
                self.fields.push((name, value));
            }
            _ => self.is_cut = true,
        }
    }

    fn end(&mut self, state: State) {
        self.rest.clear();
        self.state = state;
    }
}

/// A quoted parameter of a header.
fn parameter(line: &str, wanted: &str) -> Option<String> {
    let mut rest = line;
    while let Some((_, parameters)) = rest.split_once(';') {
        let (name, value) = parameters.split_once('=')?;
        let (value, after) = match value.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => value.split_at(value.find(';').unwrap_or(value.len())),
        };
        if name.trim().eq_ignore_ascii_case(wanted) {
            return Some(value.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n"));
        }
        rest = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BODY: &str = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\ntwo\r\n\
        --x \r\ncontent-disposition: form-data; name=\"f\"; filename=\"a;b%22.txt\"\r\nContent-Type: text/plain\r\n\r\n\
        --xx\r\n-x--\r\n\r\n--x\r\nContent-Disposition: form-data; filename=\"\"; name=\"empty\"\r\n\r\n\r\n\
        --x\r\nContent-Disposition: form-data; name=\"b\"\r\n\r\n\r\n--x--\r\nmore";

    fn read(pieces: &[&[u8]], most_bytes: usize, most_fields: usize) -> Option<Form> {
        let mut form = Multipart::new("x", most_bytes, most_fields);
        pieces.iter().for_each(|piece| form.push(piece));
        form.finish()
    }

    fn form(fields: &[(&str, &str)], is_cut: bool) -> Option<Form> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Some(Form { fields: fields.iter().map(owned).collect(), is_cut })
    }

    #[test]
    fn content_types_name_a_boundary() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(boundary(text), expected, "{text}");
        check("multipart/form-data; boundary=abc", Some("abc"));
        check("Multipart/Form-Data; charset=utf-8; Boundary=\"a b\"", Some("a b"));
        check("multipart/form-data", None);
        check("multipart/mixed; boundary=abc", None);
        check("multipart/form-data; boundary=", None);
        check(&format!("multipart/form-data; boundary={}", "a".repeat(71)), None);
    }

    #[test]
    fn fields_have_values_and_files_names() {
        let lines = BODY.replace("--xx\r\n-x--", "-x");
        let expected = form(&[("a", "one\r\ntwo"), ("f", "a;b\".txt"), ("empty", ""), ("b", "")], false);
        assert_eq!(read(&[lines.as_bytes()], 100, 10), expected);
        assert_eq!(read(&[b"before\r\n", lines.as_bytes()], 100, 10), expected);
        assert_eq!(read(&[b"--x--"], 100, 10), form(&[], false));
    }

    #[test]
    fn m1_excess_fields_are_left_out() {
        let lines = BODY.replace("--xx\r\n-x--", "-x");
        assert_eq!(
            read(&[lines.as_bytes()], 16, 10),
            form(&[("a", "one\r\ntwo"), ("empty", ""), ("b", "")], true)
        );
        assert_eq!(read(&[lines.as_bytes()], 100, 1), form(&[("a", "one\r\ntwo")], true));
        let mut endless = Multipart::new("x", 100, 10);
        endless.push(b"--x\r\n");
        for _ in 0..1_000 {
            endless.push(&[b'a'; 100]);
            assert!(endless.rest.len() <= HEADER_BYTES + 4 + 100);
        }
        assert_eq!(endless.finish(), None);
    }

    #[test]
    fn invalid_form_has_no_fields() {
        for body in [
            "",
            "--x",
            "--x\r\n\r\nvalue\r\n--x--",
            "--xy\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x--",
            "--x\r\nContent-Disposition: form-data\r\n\r\n1\r\n--x--",
            "--x\r\nContent-Disposition: form-data; name=\"a\r\n\r\n1\r\n--x--",
            "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1",
        ] {
            assert_eq!(read(&[body.as_bytes()], 100, 10), None, "{body:?}");
        }
    }

    proptest! {
        #[test]
        fn m2_pieces_do_not_matter(cuts in proptest::collection::vec(0..BODY.len(), 0..8)) {
            let lines = BODY.replace("--xx\r\n-x--", "-x");
            let whole = read(&[lines.as_bytes()], 100, 10);
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(lines.len())).collect();
            cuts.extend([0, lines.len()]);
            cuts.sort_unstable();
            let pieces: Vec<_> = cuts.windows(2).map(|cut| &lines.as_bytes()[cut[0]..cut[1]]).collect();
            prop_assert!(whole.is_some());
            prop_assert_eq!(read(&pieces, 100, 10), whole);
        }
    }
}
