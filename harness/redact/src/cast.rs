//! The recording of a terminal (asciicast): a value may be cut into any of its events.
//!
//! Output and input are two streams. The mark stands in the event in which the value began. Later events lose their part
//! of it, and stay, with their times.

use crate::redactor::{Redactor, Replacement};
use crate::spelling::Cut;

/// An event: `[TIME, CODE, DATA]`. The time stays the same text.
struct Event<'a> {
    time: &'a str,
    code: String,
    data: String,
}

/// The recording without values; `None` if it holds none.
pub(crate) fn redact_cast(redactor: &Redactor, text: &str) -> Option<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut events: Vec<Option<Event<'_>>> = lines.iter().map(|line| event(line)).collect();
    let mut redacted: Vec<Option<String>> = vec![None; lines.len()];
    for code in ["o", "i"] {
        let is_in_stream = |event: &Option<Event<'_>>| event.as_ref().is_some_and(|event| event.code == code);
        let members: Vec<usize> = (0..events.len()).filter(|&at| is_in_stream(&events[at])).collect();
        let stream: String =
            members.iter().filter_map(|&at| Some(events[at].as_ref()?.data.as_str())).collect();
        let replacements = redactor.replacements(&stream, Cut::None);
        if replacements.is_empty() {
            continue;
        }
        let mut begin = 0;
        for at in members {
            let Some(event) = &mut events[at] else { continue };
            let end = begin + event.data.len();
            if let Some(data) = redacted_part(&replacements, &stream, begin, end) {
                event.data = data;
                redacted[at] = Some(event.to_line());
            }
            begin = end;
        }
    }
    // The header, markers, and lines that are not events.
    for (at, line) in lines.iter().enumerate() {
        if events[at].as_ref().is_none_or(|event| event.code != "o" && event.code != "i") {
            redacted[at] = redactor.redact(line);
        }
    }
    if redacted.iter().all(Option::is_none) {
        return None;
    }
    Some(lines.iter().zip(&redacted).map(|(line, redacted)| redacted.as_deref().unwrap_or(line)).collect())
}

/// The redacted part of the stream from `begin` to `end`; `None` if it stays the same.
fn redacted_part(replacements: &[Replacement], stream: &str, begin: usize, end: usize) -> Option<String> {
    let mut data = String::new();
    let mut kept = begin;
    let mut changed = false;
    for Replacement { range, mark } in
        replacements.iter().filter(|gone| gone.range.start < end && gone.range.end > begin)
    {
        changed = true;
        if range.start >= begin {
            data.push_str(&stream[kept..range.start]);
            data.push_str(mark);
        }
        kept = range.end.min(end);
    }
    data.push_str(&stream[kept..end]);
    changed.then_some(data)
}

fn event(line: &str) -> Option<Event<'_>> {
    let (time, rest) = line.trim_end().strip_prefix('[')?.split_once(',')?;
    let (code, data) = serde_json::from_str(&format!("[{rest}")).ok()?;
    Some(Event { time, code, data })
}

impl Event<'_> {
    fn to_line(&self) -> String {
        let (code, data) =
            (serde_json::Value::from(self.code.as_str()), serde_json::Value::from(self.data.as_str()));
        format!("[{},{code},{data}]\n", self.time)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: &str = "{\"version\":2,\"width\":80,\"height\":24}\n";

    fn redactor(value: &str) -> Redactor {
        Redactor::new([("KEY".to_owned(), value.to_owned())]).unwrap()
    }

    fn recording(events: &[(&str, &str)]) -> String {
        let mut text = HEADER.to_owned();
        for (at, (code, data)) in events.iter().enumerate() {
            let event =
                Event { time: &format!("0.{at:06}"), code: (*code).to_owned(), data: (*data).to_owned() };
            text.push_str(&event.to_line());
        }
        text
    }

    fn check(events: &[(&str, &str)], expected: &[(&str, &str)]) {
        let got = redact_cast(&redactor("hunter2-x"), &recording(events));
        assert_eq!(got.unwrap_or_else(|| recording(events)), recording(expected));
    }

    #[test]
    fn value_cut_into_events_is_redacted() {
        check(&[("o", "a hunter2-x b")], &[("o", "a [redacted KEY] b")]);
        check(
            &[("o", "a hun"), ("o", "ter"), ("o", "2-x b")],
            &[("o", "a [redacted KEY]"), ("o", ""), ("o", " b")],
        );
        // Typed key by key: the echoed output lies between the input events.
        check(
            &[("i", "hunter"), ("o", "hunter"), ("i", "2-x\r"), ("o", "2-x\r\n")],
            &[("i", "[redacted KEY]"), ("o", "[redacted KEY]"), ("i", "\r"), ("o", "\r\n")],
        );
        check(&[("o", "hunter2-xhunt"), ("o", "er2-x")], &[("o", "[redacted KEY][redacted KEY]"), ("o", "")]);
        check(&[("o", "hunter"), ("m", "hunter2-x")], &[("o", "hunter"), ("m", "[redacted KEY]")]);
    }

    #[test]
    fn text_without_events_is_redacted() {
        assert_eq!(
            redact_cast(&redactor("hunter2-x"), "no json hunter2-x\n").unwrap(),
            "no json [redacted KEY]\n"
        );
        assert_eq!(redact_cast(&redactor("hunter2-x"), "no json\n"), None);
        assert_eq!(redact_cast(&redactor("hunter2-x"), &recording(&[("o", "nothing")])), None);
    }

    proptest! {
        /// I1, cut at any places: what a player shows is the redacted text, and times stay.
        #[test]
        fn i1_any_cuts(
            before in "[a-c\"\\\\é ]{0,12}",
            after in "[a-c\"\\\\é ]{0,12}",
            value in "[a-c\"\\\\é]{8,12}",
            again in proptest::bool::ANY,
            cuts in proptest::collection::vec(proptest::sample::Index::arbitrary(), 0..6),
        ) {
            let whole = format!("{before}{value}{}{after}", if again { value.as_str() } else { "" });
            let mut places: Vec<usize> = whole.char_indices().map(|(at, _)| at).collect();
            places.push(whole.len());
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| places[cut.index(places.len())]).collect();
            cuts.extend([0, whole.len()]);
            cuts.sort_unstable();
            let pieces: Vec<(&str, &str)> = cuts.windows(2).map(|cut| ("o", &whole[cut[0]..cut[1]])).collect();
            let redactor = redactor(&value);
            let redacted = redact_cast(&redactor, &recording(&pieces)).unwrap();
            let lines: Vec<&str> = redacted.lines().skip(1).collect();
            prop_assert_eq!(lines.len(), pieces.len());
            let events: Vec<Event<'_>> = lines.iter().map(|line| event(line).unwrap()).collect();
            let shown: String = events.iter().map(|event| event.data.as_str()).collect();
            prop_assert_eq!(&shown, &redactor.redact(&whole).unwrap());
            prop_assert!(!shown.contains(&value));
            for (at, event) in events.iter().enumerate() {
                prop_assert_eq!(event.time, &format!("0.{at:06}"));
            }
        }
    }
}
