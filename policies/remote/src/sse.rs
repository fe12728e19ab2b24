//! Parses server-sent events from a stream of bytes.
//!
//! I1. The division of the bytes into chunks does not matter: characters, line ends and events may be split anywhere.
//! I2. At most one unfinished event is kept, of at most [`MAX_EVENT_BYTES`].
//! I3. An event without a final empty line is still returned at the end: some servers omit the line, and the content
//! decides whether the reply is complete.
//!
//! Pure; nothing to cancel.
//! Source: WHATWG HTML, "Server-sent events", parsing an event stream. Deviations: `id` and `retry` are of no use here
//! and are skipped; bytes that are not UTF-8 are an error, not replaced, but for halves of surrogate pairs; a field `error` (llama.cpp) is the
//! data of an event of that name.

use clawrl_core::utf8_text;

/// Name of an error event.
const ERROR: &str = "error";

/// Largest event. One with log-probabilities of every token of a long piece is a few hundred kilobytes.
pub(crate) const MAX_EVENT_BYTES: usize = 8 << 20;

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Name of the event; empty for most servers.
    pub(crate) name: String,
    /// The data lines, joined.
    pub(crate) data: String,
}

impl Event {
    /// Whether the name marks an error.
    pub(crate) fn is_error(&self) -> bool {
        self.name == ERROR
    }
}

/// Why bytes are not events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SseError {
    #[error("bytes that are not UTF-8")]
    NotUtf8,
    #[error("an event without end")]
    TooLarge,
}

/// An incremental parser.
#[derive(Debug, Default)]
pub(crate) struct SseReader {
    /// The line that has not ended.
    line: Vec<u8>,
    /// The last byte was a carriage return, which ended a line; a line feed after it belongs to it.
    after_return: bool,
    begun: bool,
    name: String,
    data: String,
    /// Whether a byte order mark may still come.
    past_first_line: bool,
}

impl SseReader {
    /// Reads the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> Result<(), SseError> {
        for &byte in bytes {
            let follows_return = std::mem::replace(&mut self.after_return, byte == b'\r');
            match byte {
                b'\n' if follows_return => {}
                b'\n' | b'\r' => self.end_line(events)?,
                other => {
                    if self.line.len() + self.data.len() >= MAX_EVENT_BYTES {
                        return Err(SseError::TooLarge);
                    }
                    self.line.push(other);
                }
            }
        }
        Ok(())
    }

    /// Ends the stream.
    pub(crate) fn finish(&mut self, events: &mut Vec<Event>) -> Result<(), SseError> {
        if !self.line.is_empty() {
            self.end_line(events)?;
        }
        self.end_event(events);
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<Event>) -> Result<(), SseError> {
        let line = std::mem::take(&mut self.line);
        let line = utf8_text(&line).map_err(|_| SseError::NotUtf8)?;
        let mut line: &str = &line;
        if !std::mem::replace(&mut self.past_first_line, true) {
            line = line.trim_start_matches('\u{feff}');
        }
        if line.is_empty() {
            self.end_event(events);
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" | ERROR => {
                if field == ERROR {
                    ERROR.clone_into(&mut self.name);
                }
                if self.begun {
                    self.data.push('\n');
                }
                self.data.push_str(value);
                self.begun = true;
            }
            "event" => self.name = value.to_owned(),
            // Comments, which are keep-alives, and unused fields.
            _ => {}
        }
        Ok(())
    }

    fn end_event(&mut self, events: &mut Vec<Event>) {
        let event = Event { name: std::mem::take(&mut self.name), data: std::mem::take(&mut self.data) };
        if std::mem::take(&mut self.begun) {
            events.push(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Result<Vec<Event>, SseError> {
        let mut reader = SseReader::default();
        let mut events = Vec::new();
        for piece in pieces {
            reader.push(piece, &mut events)?;
        }
        reader.finish(&mut events)?;
        Ok(events)
    }

    fn check(text: &str, expected: &[(&str, &str)]) {
        let expected: Vec<Event> = expected
            .iter()
            .map(|(name, data)| Event { name: (*name).into(), data: (*data).into() })
            .collect();
        assert_eq!(read(&[text.as_bytes()]), Ok(expected), "{text:?}");
    }

    #[test]
    fn events() {
        check("data: a\n\ndata: b\n\n", &[("", "a"), ("", "b")]);
        check("event: ping\r\ndata:{}\r\n\r\n", &[("ping", "{}")]);
        check("data: a\rdata: b\r\r", &[("", "a\nb")]);
        check(": a comment\n\nevent: x\n\n", &[]);
        check("\u{feff}data: a\n\n", &[("", "a")]);
        check("data\n\n", &[("", "")]);
        check("id: 1\nretry: 5\ndata: a", &[("", "a")]);
        check("garbage\nmore of it\n\n", &[]);
        check("error: {\"code\":500}\n\n", &[("error", "{\"code\":500}")]);
    }

    #[test]
    fn bytes_that_are_not_text_are_refused() {
        assert_eq!(read(&[b"data: \xff\n\n"]), Err(SseError::NotUtf8));
        let half = Event { data: "a \u{fffd}".to_owned(), ..Event::default() };
        assert_eq!(read(&[b"data: a \xed\xa0\xbd\n\n"]), Ok(vec![half]));
    }

    #[test]
    fn i2_an_event_without_end_is_refused() {
        let mut reader = SseReader::default();
        let mut events = Vec::new();
        reader.push(b"data: ", &mut events).unwrap();
        let piece = vec![b'x'; 1 << 20];
        let refused = (0..9).map(|_| reader.push(&piece, &mut events)).find(Result::is_err);
        assert_eq!(refused, Some(Err(SseError::TooLarge)));
        assert!(reader.line.len() <= MAX_EVENT_BYTES);
    }

    proptest! {
        /// I1.
        #[test]
        fn cuts_change_nothing(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("data: "), Just("é🦀"), Just("\n"), Just("\r\n"), Just("\r"), Just("\n\n"),
                    Just("event: e"), Just(": c"), Just("x")
                ],
                0..40,
            ),
            cuts in proptest::collection::vec(0usize..200, 0..20),
        ) {
            let text = parts.concat();
            let whole = read(&[text.as_bytes()]).unwrap();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &text.as_bytes()[cut[0]..cut[1]]).collect();
            prop_assert_eq!(read(&pieces).unwrap(), whole);
        }

        /// Any bytes are events or an error, never a panic.
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&[&bytes]);
        }
    }
}
