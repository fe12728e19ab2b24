//! Records a session as asciicast v2, which any asciinema player can replay.
//!
//! C1. Memory is bounded by the cap; when it is reached, a marker event says so and recording stops.
//! C2. The caller passes all times: the same calls produce the same text.
//! C3. Times never decrease.
//!
//! Units: times in the text are seconds since the start, with six digits. Source: asciinema's asciicast v2 format.
//! Pure; nothing to cancel.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Output this close to the one before joins its event.
const SAME_EVENT: Duration = Duration::from_millis(2);
/// Memory charged for an event in addition to its bytes.
const EVENT_COST: usize = size_of::<Event>();

/// Records one session.
#[derive(Debug)]
pub struct CastRecorder {
    start: Instant,
    size: (u16, u16),
    cap_bytes: usize,
    bytes: Vec<u8>,
    events: Vec<Event>,
    full: bool,
}

#[derive(Debug)]
struct Event {
    after: Duration,
    kind: Kind,
    /// End of the event's bytes; they start where the previous event's end.
    end: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Output,
    Input,
    Resize,
    Marker,
}

impl CastRecorder {
    /// Starts at `start` with a terminal of `size` (columns, rows). A cap of 0 records nothing.
    #[must_use]
    pub fn new(start: Instant, size: (u16, u16), cap_bytes: usize) -> Self {
        Self { start, size, cap_bytes, bytes: Vec::new(), events: Vec::new(), full: cap_bytes == 0 }
    }

    /// Bytes from the terminal.
    pub fn output(&mut self, at: Instant, bytes: &[u8]) {
        self.push(at, Kind::Output, bytes);
    }

    /// Bytes to the terminal.
    pub fn input(&mut self, at: Instant, bytes: &[u8]) {
        self.push(at, Kind::Input, bytes);
    }

    /// A new size (columns, rows).
    pub fn resize(&mut self, at: Instant, (columns, rows): (u16, u16)) {
        self.push(at, Kind::Resize, format!("{columns}x{rows}").as_bytes());
    }

    /// The whole recording as text: a header line, then one line per event.
    #[must_use]
    pub fn to_text(&self) -> String {
        let (columns, rows) = self.size;
        let mut text = format!("{{\"version\":2,\"width\":{columns},\"height\":{rows}}}\n");
        let mut begin = 0;
        let mut carry: Vec<u8> = Vec::new();
        for event in &self.events {
            let mut bytes = std::mem::take(&mut carry);
            let kind = event.kind;
            if kind != Kind::Output {
                // A character that an event of another kind interrupted continues after it.
                carry = std::mem::take(&mut bytes);
            }
            bytes.extend_from_slice(&self.bytes[begin..event.end]);
            begin = event.end;
            if kind == Kind::Output {
                carry = bytes.split_off(bytes.len() - unfinished(&bytes));
            }
            push_event(&mut text, event.after, kind, &String::from_utf8_lossy(&bytes));
        }
        if let (false, Some(last)) = (carry.is_empty(), self.events.last()) {
            push_event(&mut text, last.after, Kind::Output, &String::from_utf8_lossy(&carry));
        }
        text
    }

    fn push(&mut self, at: Instant, kind: Kind, bytes: &[u8]) {
        if self.full {
            return;
        }
        let previous = self.events.last().map_or(Duration::ZERO, |event| event.after);
        let after = at.saturating_duration_since(self.start).max(previous);
        if self.bytes.len() + bytes.len() + (self.events.len() + 2) * EVENT_COST > self.cap_bytes {
            self.full = true;
            self.bytes.extend_from_slice(b"recording stopped: size limit");
            self.events.push(Event { after, kind: Kind::Marker, end: self.bytes.len() });
            return;
        }
        self.bytes.extend_from_slice(bytes);
        let end = self.bytes.len();
        match self.events.last_mut() {
            Some(last) if last.kind == kind && kind == Kind::Output && after - last.after < SAME_EVENT => {
                last.end = end
            }
            _ => self.events.push(Event { after, kind, end }),
        }
    }
}

fn push_event(text: &mut String, after: Duration, kind: Kind, data: &str) {
    let code = match kind {
        Kind::Output => "o",
        Kind::Input => "i",
        Kind::Resize => "r",
        Kind::Marker => "m",
    };
    let data = serde_json::Value::from(data);
    // Writing to a String cannot fail.
    let _ = writeln!(text, "[{}.{:06},\"{code}\",{data}]", after.as_secs(), after.subsec_micros());
}

/// Length of an incomplete UTF-8 character at the end.
fn unfinished(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    let begins = tail.iter().rposition(|&byte| byte >= 0xc0).map_or(tail.len(), |at| at);
    match std::str::from_utf8(&tail[begins..]) {
        Err(error) if error.error_len().is_none() => tail.len() - begins,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder(cap: usize) -> (CastRecorder, impl Fn(u64) -> Instant) {
        let start = Instant::now();
        (CastRecorder::new(start, (80, 24), cap), move |millis| start + Duration::from_millis(millis))
    }

    #[test]
    fn events_in_order() {
        let (mut cast, at) = recorder(10_000);
        cast.output(at(0), b"$ ");
        cast.output(at(1), b"\x1b[1m");
        cast.input(at(1_500), b"ls\r");
        cast.output(at(1_501), b"a\"b\\\r\n\xe2\x82");
        cast.resize(at(1_600), (100, 30));
        cast.output(at(1_550), b"\xac\xff");
        insta::assert_snapshot!(cast.to_text(), @r#"
        {"version":2,"width":80,"height":24}
        [0.000000,"o","$ \u001b[1m"]
        [1.500000,"i","ls\r"]
        [1.501000,"o","a\"b\\\r\n"]
        [1.600000,"r","100x30"]
        [1.600000,"o","€�"]
        "#);
    }

    #[test]
    fn stops_at_the_cap() {
        let (mut cast, at) = recorder(1_000);
        for step in 0..100 {
            cast.output(at(step * 10), &[b'x'; 100]);
        }
        let text = cast.to_text();
        assert!(text.ends_with("\"m\",\"recording stopped: size limit\"]\n"), "{text}");
        assert!(cast.bytes.len() <= 1_000 + 40);
    }

    #[test]
    fn a_cut_character_is_not_lost() {
        let (mut cast, at) = recorder(1_000);
        cast.output(at(0), b"\xe2");
        assert!(cast.to_text().ends_with("[0.000000,\"o\",\"\u{fffd}\"]\n"));
    }
}
