//! Assembles streamed tool calls despite the different numbering and repetition of servers.
//!
//! A piece has an index, an id, a name and a part of the arguments; any of them may be missing. OpenAI sends id and name
//! with the first
//! piece of a call, and its index with each. Others leave out the index or give all calls the index 0 (proxies before Gemini), repeat id
//! and name with each piece (vLLM, MiniMax), give each piece an id of its own (LM Studio), cut names in pieces (Gemini), give one call
//! several indices (LocalAI), or send complete calls without index and id. So a piece continues a call unless something
//! shows that it begins one.
//!
//! I1. A piece without a name continues a call, if one has begun whose arguments are not yet a complete JSON value. I2. A
//! name begins a call, unless it repeats a name or continues one whose call has no arguments yet. I3. Calls are in the
//! order of their indices, then of their first pieces if indices are equal or missing. I4. A call sent twice under one id
//! is one call; different calls have different ids, or none.
//!
//! Pure; nothing to cancel.

use serde_json::Value;

/// A call, as far as it has arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartialCall {
    /// The server's id; may be empty.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// JSON text.
    pub arguments: String,
}

/// Assembles calls from pieces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartialCalls(Vec<Entry>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Entry {
    index: Option<u64>,
    call: PartialCall,
    extent: Extent,
}

/// A piece of a call; missing parts are empty.
#[derive(Debug, Clone, Default)]
pub(crate) struct Piece<'a> {
    pub(crate) index: Option<u64>,
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    pub(crate) arguments: &'a str,
}

impl PartialCalls {
    /// Reads an entry of `tool_calls` in OpenAI's format, from a stream or a complete response. Returns the number of bytes
    /// added.
    pub fn take(&mut self, entry: &Value) -> usize {
        let text = |value: Option<&Value>| match value {
            Some(Value::String(text)) => text.clone(),
            Some(number @ Value::Number(_)) => number.to_string(),
            _ => String::new(),
        };
        let arguments = match entry.pointer("/function/arguments") {
            Some(object @ Value::Object(_)) => object.to_string(),
            other => text(other),
        };
        let (id, name) = (text(entry.get("id")), text(entry.pointer("/function/name")));
        let index = entry.get("index").and_then(Value::as_u64);
        self.take_piece(&Piece { index, id: &id, name: &name, arguments: &arguments })
    }

    /// Reads a piece. Returns the number of bytes added.
    pub(crate) fn take_piece(&mut self, piece: &Piece<'_>) -> usize {
        let known = self.candidate(piece).filter(|at| !self.0[*at].ends_before(piece));
        match known {
            Some(at) => self.0[at].add(piece),
            None => self.begin(piece),
        }
    }

    /// Reads a piece that the server marks as the first of a call.
    pub(crate) fn begin(&mut self, piece: &Piece<'_>) -> usize {
        let mut begun = Entry { index: piece.index, ..Entry::default() };
        let bytes = begun.add(piece);
        self.0.push(begun);
        bytes
    }

    /// Number of calls that have begun.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no call has begun.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All calls (I3, I4), without those that have neither a name nor arguments.
    #[must_use]
    pub fn all(&self) -> Vec<PartialCall> {
        let mut last = 0;
        let mut ordered: Vec<(u64, &Entry)> = Vec::with_capacity(self.0.len());
        for entry in &self.0 {
            last = entry.index.unwrap_or(last);
            ordered.push((last, entry));
        }
        ordered.sort_by_key(|(index, _)| *index);
        let is_call = |entry: &&Entry| !entry.call.name.is_empty() || !entry.extent.is_blank();
        // Calls with their original ids.
        let mut calls: Vec<(&str, PartialCall)> = Vec::with_capacity(ordered.len());
        for Entry { call, .. } in ordered.into_iter().map(|(_, entry)| entry).filter(is_call) {
            let is_same_id = |told: &(&str, PartialCall)| !call.id.is_empty() && told.0 == call.id;
            let mut told = calls.iter_mut().filter(|told| is_same_id(told)).map(|(_, told)| told);
            if let Some(told) = told.find(|told| told.is_told_by(call) || call.is_told_by(told)) {
                if told.arguments.trim().is_empty() {
                    told.arguments.clone_from(&call.arguments);
                }
                continue;
            }
            let id = if calls.iter().any(is_same_id) { String::new() } else { call.id.clone() };
            calls.push((&call.id, PartialCall { id, ..call.clone() }));
        }
        calls.into_iter().map(|(_, call)| call).collect()
    }

    /// Index of the call that a piece continues, if any.
    fn candidate(&self, piece: &Piece<'_>) -> Option<usize> {
        let last = |is: &dyn Fn(&Entry) -> bool| self.0.iter().rposition(is);
        let has_id = |entry: &Entry| !piece.id.is_empty() && entry.call.id == piece.id;
        let has_index = |entry: &Entry| piece.index.is_some() && entry.index == piece.index;
        let named = last(&|entry| has_id(entry) && has_index(entry))
            .or_else(|| last(&has_index))
            .or_else(|| last(&has_id));
        let goes_on = piece.name.is_empty() && piece.id.is_empty();
        match named {
            // A wrong index: the arguments of the indexed call are complete, and those of the last call are not. White
            // space counts as arguments: it may be part of a split string.
            Some(at) if goes_on && !piece.arguments.is_empty() && self.0[at].extent.is_whole() => {
                last(&|entry| !entry.extent.is_whole()).or(named)
            }
            Some(_) => named,
            None if goes_on || piece.index.is_none() => self.0.len().checked_sub(1),
            None => None,
        }
    }
}

impl Entry {
    /// Whether a piece with its index, or its id, begins another call (I1, I2).
    fn ends_before(&self, piece: &Piece<'_>) -> bool {
        let Self { index, call, extent } = self;
        let is_other_id = !piece.id.is_empty() && !call.id.is_empty() && piece.id != call.id;
        let is_other_index = piece.index.is_some() && index.is_some() && piece.index != *index;
        // Complete calls without index and id each have a name.
        let is_unmarked = piece.index.is_none() && piece.id.is_empty() && call.id.is_empty();
        let is_apart = is_other_id || is_other_index || is_unmarked;
        let is_named = !piece.name.is_empty();
        let is_same_name = piece.name == call.name;
        if extent.is_blank() {
            is_named && !call.name.is_empty() && is_apart && !(is_same_name && piece.says())
        } else if extent.is_whole() {
            (is_named || is_other_id) && (piece.says() || is_named && (is_apart || !is_same_name))
        } else {
            is_named && !is_same_name && (is_other_id || is_other_index)
        }
    }

    fn add(&mut self, piece: &Piece<'_>) -> usize {
        let Self { index, call, extent } = self;
        *index = index.or(piece.index);
        if call.id.is_empty() {
            piece.id.clone_into(&mut call.id);
        }
        let mut bytes = piece.arguments.len();
        // A repeated name is not appended.
        if call.name != piece.name {
            call.name.push_str(piece.name);
            bytes += piece.name.len();
        }
        call.arguments.push_str(piece.arguments);
        extent.add(piece.arguments);
        bytes
    }
}

impl Piece<'_> {
    /// Whether part of the arguments has arrived.
    fn says(&self) -> bool {
        !self.arguments.trim().is_empty()
    }
}

impl PartialCall {
    /// Whether `other`, with the same id, repeats or extends this call.
    fn is_told_by(&self, other: &Self) -> bool {
        let is_same = |one: &str, other: &str| {
            let read = |text: &str| serde_json::from_str::<Value>(text).ok();
            match (read(one), read(other)) {
                // Some servers repeat the arguments as a JSON string.
                (Some(one), Some(Value::String(other))) => Some(one) == read(&other),
                (Some(one), Some(other)) => one == other,
                _ => one == other,
            }
        };
        self.name == other.name
            && (other.arguments.trim().is_empty() || is_same(&self.arguments, &other.arguments))
    }
}

/// State of a partial JSON text, from its brackets and quotes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Extent {
    depth: u64,
    is_begun: bool,
    is_in_string: bool,
    is_in_escape: bool,
    has_brackets: bool,
}

impl Extent {
    fn add(&mut self, text: &str) {
        for byte in text.bytes() {
            if self.is_in_escape {
                self.is_in_escape = false;
                continue;
            }
            match byte {
                b'\\' => self.is_in_escape = self.is_in_string,
                b'"' => self.is_in_string = !self.is_in_string,
                b'{' | b'[' if !self.is_in_string => {
                    self.depth += 1;
                    self.has_brackets = true;
                }
                b'}' | b']' if !self.is_in_string => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            self.is_begun |= !byte.is_ascii_whitespace();
        }
    }

    /// Only white space has arrived.
    fn is_blank(self) -> bool {
        !self.is_begun
    }

    /// An object or a list is complete.
    fn is_whole(self) -> bool {
        self.has_brackets && self.depth == 0 && !self.is_in_string
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn put_together(pieces: &[Value]) -> Vec<(String, String, String)> {
        let mut calls = PartialCalls::default();
        pieces.iter().for_each(|piece| _ = calls.take(piece));
        calls.all().into_iter().map(|call| (call.id, call.name, call.arguments)).collect()
    }

    /// Ids, names, and arguments.
    fn check(pieces: &[Value], expected: &[(&str, &str, &str)]) {
        let found = put_together(pieces);
        let found: Vec<_> = found.iter().map(|(id, name, text)| (&**id, &**name, &**text)).collect();
        assert_eq!(found, expected, "{pieces:?}");
    }

    #[test]
    fn calls_of_openai_may_come_interleaved() {
        check(
            &[
                json!({"index": 1, "id": "b", "type": "function", "function": {"name": "pwd", "arguments": ""}}),
                json!({"index": 0, "id": "a", "type": "function", "function": {"name": "ls", "arguments": "{\"a\""}}),
                json!({"index": 1, "function": {"arguments": "{}"}}),
                json!({"index": 0, "function": {"arguments": ": 1}"}}),
            ],
            &[("a", "ls", "{\"a\": 1}"), ("b", "pwd", "{}")],
        );
    }

    #[test]
    fn an_id_with_every_piece_begins_no_call() {
        // LM Studio sends a different id each time, vLLM always the same, MiniMax with the name.
        for (second, third) in [("u2", "u3"), ("u1", "u1")] {
            for name in [json!(""), json!(null), json!("prices")] {
                check(
                    &[
                        json!({"index": 0, "id": "u1", "function": {"name": "prices", "arguments": ""}}),
                        json!({"index": 0, "id": second, "function": {"name": name, "arguments": "{\"key\""}}),
                        json!({"index": 0, "id": third, "function": {"name": name, "arguments": ": \"river\"}"}}),
                    ],
                    &[("u1", "prices", "{\"key\": \"river\"}")],
                );
            }
        }
        // The last piece has only an id.
        check(
            &[
                json!({"index": 0, "id": "u1", "function": {"name": "f", "arguments": "{}"}}),
                json!({"index": 0, "id": "u2", "function": {"name": "", "arguments": ""}}),
            ],
            &[("u1", "f", "{}")],
        );
    }

    #[test]
    fn calls_that_all_have_the_index_0_stay_apart() {
        let call = |id: Value, name: &str, arguments: &str| json!({"index": 0, "id": id, "function": {"name": name, "arguments": arguments}});
        check(
            &[
                call(json!("a"), "f", "{\"x\": 1}"),
                call(json!("b"), "f", "{\"x\": 2}"),
                call(json!("c"), "g", "{}"),
            ],
            &[("a", "f", "{\"x\": 1}"), ("b", "f", "{\"x\": 2}"), ("c", "g", "{}")],
        );
        check(
            &[call(json!(null), "f", "{\"x\": 1}"), call(json!(null), "f", "{\"x\": 1}")],
            &[("", "f", "{\"x\": 1}"), ("", "f", "{\"x\": 1}")],
        );
        check(
            &[call(json!("a"), "f", ""), call(json!("b"), "g", ""), call(json!("c"), "g", "")],
            &[("a", "f", ""), ("b", "g", ""), ("c", "g", "")],
        );
        // A call that the model never ends, followed by another one.
        check(
            &[call(json!("a"), "f", "{\"x\": "), call(json!("b"), "g", "{}")],
            &[("a", "f", "{\"x\": "), ("b", "g", "{}")],
        );
    }

    #[test]
    fn names_may_come_in_pieces() {
        let piece = |name: &str, arguments: &str| json!({"index": 0, "function": {"name": name, "arguments": arguments}});
        let expected = [("", "get_weather", "{\"city\": 1}")];
        check(&[piece("get_", ""), piece("weather", ""), piece("", "{\"city\": 1}")], &expected);
        check(&[piece("get_wea", "{\"ci"), piece("ther", "ty\": 1}")], &expected);
        check(&[piece("get_weather", "{\"ci"), piece("get_weather", "ty\": 1}")], &expected);
        check(
            &[
                json!({"index": 0, "id": "a", "function": {"arguments": ""}}),
                json!({"index": 0, "function": {"name": "f"}}),
                json!({"index": 0, "function": {"arguments": "{}"}}),
            ],
            &[("a", "f", "{}")],
        );
    }

    #[test]
    fn indices_may_be_missing_or_wrong() {
        let first = |index: Value| json!({"index": index, "id": "a", "function": {"name": "f", "arguments": "{\"x\""}});
        let more = |index: Value| json!({"index": index, "function": {"arguments": ": 1}"}});
        for (one, other) in [
            (json!(null), json!(null)),
            (json!(0), json!(null)),
            (json!(null), json!(0)),
            (json!(0), json!(1)),
            (json!(1), json!(0)),
            (json!("0"), json!(-1)),
        ] {
            check(&[first(one), more(other)], &[("a", "f", "{\"x\": 1}")]);
        }
        // One call under several indices, as it grows.
        check(
            &[
                json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}),
                json!({"index": 1, "id": "a", "function": {"name": "f", "arguments": "{\"x\""}}),
                json!({"index": 2, "id": "a", "function": {"name": "f", "arguments": ": 1}"}}),
            ],
            &[("a", "f", "{\"x\": 1}")],
        );
        // Complete calls with only a name.
        check(
            &[
                json!({"function": {"name": "f", "arguments": {"x": 1}}}),
                json!({"function": {"name": "g", "arguments": {}}}),
                json!({"function": {"name": "g"}}),
                json!({"function": {"name": "h", "arguments": ""}}),
            ],
            &[("", "f", "{\"x\":1}"), ("", "g", "{}"), ("", "g", ""), ("", "h", "")],
        );
    }

    #[test]
    fn i4_a_call_that_is_told_twice_is_one() {
        let call = |arguments: Value| json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": arguments}});
        let once = json!("{\"x\": 1}");
        for again in [once.clone(), json!({"x": 1}), json!("\"{\\\"x\\\": 1}\"")] {
            check(&[call(once.clone()), call(again)], &[("a", "f", "{\"x\": 1}")]);
        }
        // Other calls under the same id.
        check(&[call(once), call(json!({"x": 2}))], &[("a", "f", "{\"x\": 1}"), ("", "f", "{\"x\":2}")]);
    }

    #[test]
    fn what_says_nothing_is_no_call() {
        check(
            &[
                json!(null),
                json!({}),
                json!([1]),
                json!({"index": 3}),
                json!({"index": 0, "id": "a", "function": {}}),
            ],
            &[],
        );
        check(&[json!({"index": 0, "id": 7, "function": {"name": "f"}})], &[("7", "f", "")]);
    }

    /// How a server sends its calls.
    #[derive(Debug, Clone, Copy)]
    enum Habit {
        Openai,
        OneIndexForAll,
        NoIndex,
        IndexCountsPieces,
        RandomIndex,
        IndexWithTheFirstPieceAlone,
        IdWithEveryPiece,
        IdAndNameWithEveryPiece,
        NewIdWithEveryPiece,
        NewIdAndNameWithEveryPiece,
        NoId,
        NeitherIndexNorId,
        OneIdForAll,
        NameInPieces,
        NameWithEveryPieceNoId,
    }

    const HABITS: [Habit; 15] = [
        Habit::Openai,
        Habit::OneIndexForAll,
        Habit::NoIndex,
        Habit::IndexCountsPieces,
        Habit::RandomIndex,
        Habit::IndexWithTheFirstPieceAlone,
        Habit::IdWithEveryPiece,
        Habit::IdAndNameWithEveryPiece,
        Habit::NewIdWithEveryPiece,
        Habit::NewIdAndNameWithEveryPiece,
        Habit::NoId,
        Habit::NeitherIndexNorId,
        Habit::OneIdForAll,
        Habit::NameInPieces,
        Habit::NameWithEveryPieceNoId,
    ];

    /// The pieces of one call: its name with the first, its arguments cut into these.
    fn pieces(habit: Habit, number: usize, name: &str, parts: &[&str], count: &mut usize) -> Vec<Value> {
        let mut pieces = Vec::new();
        // A new id with the same name and no arguments is a call without any.
        let is_told = |part: &&&str| !part.is_empty() || !matches!(habit, Habit::NewIdAndNameWithEveryPiece);
        for (place, part) in parts.iter().filter(is_told).enumerate() {
            *count += 1;
            let is_first = place == 0;
            let index = match habit {
                Habit::OneIndexForAll
                | Habit::NewIdWithEveryPiece
                | Habit::NewIdAndNameWithEveryPiece
                | Habit::NameWithEveryPieceNoId => Some(0),
                Habit::NoIndex | Habit::NeitherIndexNorId => None,
                Habit::IndexCountsPieces => Some(*count),
                Habit::RandomIndex if !is_first => Some(*count * 7 % 5),
                Habit::IndexWithTheFirstPieceAlone if !is_first => None,
                _ => Some(number),
            };
            let id = match habit {
                Habit::NoId | Habit::NeitherIndexNorId | Habit::NameWithEveryPieceNoId => None,
                Habit::OneIdForAll => Some("one".to_owned()),
                Habit::NewIdWithEveryPiece | Habit::NewIdAndNameWithEveryPiece => Some(format!("u{count}")),
                Habit::IdWithEveryPiece | Habit::IdAndNameWithEveryPiece => Some(format!("c{number}")),
                _ if is_first => Some(format!("c{number}")),
                _ => None,
            };
            let repeats = matches!(
                habit,
                Habit::IdAndNameWithEveryPiece
                    | Habit::NewIdAndNameWithEveryPiece
                    | Habit::NameWithEveryPieceNoId
            );
            let name = match habit {
                Habit::NameInPieces if is_first => &name[..1],
                _ if is_first || repeats => name,
                _ => "",
            };
            pieces.push(json!({"index": index, "id": id, "function": {"name": name, "arguments": part}}));
        }
        if let Habit::NameInPieces = habit {
            pieces.insert(1, json!({"index": number, "function": {"name": &name[1..], "arguments": ""}}));
            // The arguments in the first piece arrived before the end of the name.
            let first = pieces[0]["function"]["arguments"].take();
            pieces[0]["function"]["arguments"] = json!("");
            pieces[1]["function"]["arguments"] = first;
        }
        pieces
    }

    /// A name other than one letter twice: of two equal pieces, the second could be a repetition of the first.
    fn name() -> impl Strategy<Value = String> {
        prop_oneof![Just("ls".to_owned()), "[a-z]_[a-z]{0,4}"]
    }

    fn arguments() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<i32>().prop_map(|number| json!(number)),
            "[a-z{}\\[\\]\"\\\\:, é😀\n]{0,8}".prop_map(|text| json!(text)),
        ];
        let tree = leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-z\"{}]{0,3}", inner, 0..3).prop_map(|map| json!(map)),
            ]
        });
        prop::collection::btree_map("[a-z]{1,3}", tree, 0..3).prop_map(|map| json!(map).to_string())
    }

    /// A text cut at these places, or at the next ones between two characters.
    fn cut<'a>(text: &'a str, cuts: &[usize]) -> Vec<&'a str> {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
        cuts.iter_mut()
            .for_each(|cut| *cut = (*cut..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap());
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
    }

    fn names_and_arguments(pieces: &[Value]) -> Vec<(String, String)> {
        put_together(pieces).into_iter().map(|(_, name, arguments)| (name, arguments)).collect()
    }

    proptest! {
        /// Calls are assembled for all repetitions, omissions and cuts.
        #[test]
        fn calls_are_the_same_in_all_habits_of_servers(
            calls in prop::collection::vec((name(), arguments()), 1..4),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            for habit in HABITS {
                let mut count = 0;
                let mut expected = calls.clone();
                if let Habit::OneIdForAll = habit {
                    // The same call under the same id is that call again (I4).
                    let mut seen = std::collections::BTreeSet::new();
                    expected.retain(|call| seen.insert(call.clone()));
                }
                let mut all = Vec::new();
                for (number, (name, arguments)) in calls.iter().enumerate() {
                    let cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(arguments.len() + 1)).collect();
                    all.extend(pieces(habit, number, name, &cut(arguments, &cuts), &mut count));
                }
                prop_assert_eq!(names_and_arguments(&all), expected, "{:?}: {:?}", habit, all);
            }
        }

        /// Cut between any two characters.
        #[test]
        fn a_call_may_be_cut_anywhere(arguments in arguments()) {
            for habit in HABITS {
                for at in (0..=arguments.len()).filter(|at| arguments.is_char_boundary(*at)) {
                    let all = pieces(habit, 0, "run", &[&arguments[..at], &arguments[at..]], &mut 0);
                    let expected = vec![("run".to_owned(), arguments.clone())];
                    prop_assert_eq!(names_and_arguments(&all), expected, "{:?}: {:?}", habit, all);
                }
            }
        }

        /// Calls of OpenAI's kind, whose pieces come in any order that keeps that of each call.
        #[test]
        fn pieces_with_an_index_may_be_interleaved(
            calls in prop::collection::vec(("[a-z]{1,4}", arguments()), 1..4),
            order in prop::collection::vec(0usize..4, 0..40),
        ) {
            let cut = |(number, (name, arguments)): (usize, &(String, String))| {
                let parts: Vec<String> = arguments.chars().map(String::from).collect();
                let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
                pieces(Habit::Openai, number, name, &parts, &mut 0)
            };
            let mut waiting: Vec<_> = calls.iter().enumerate().map(|call| cut(call).into_iter()).collect();
            // A call begins before its index is used.
            let mut all: Vec<Value> = waiting.iter_mut().filter_map(Iterator::next).collect();
            for turn in order {
                let turn = turn % waiting.len();
                all.extend(waiting[turn].next());
            }
            all.extend(waiting.into_iter().flatten());
            prop_assert_eq!(names_and_arguments(&all), calls);
        }

        #[test]
        fn any_pieces_are_survived(
            pieces in prop::collection::vec(
                (prop::option::of(0u64..3), prop::sample::select(vec!["", "a", "b"]), prop::sample::select(vec!["", "f", "g"]), "[{}\"\\\\a ]{0,4}"),
                0..12,
            ),
        ) {
            let pieces: Vec<Value> = pieces
                .into_iter()
                .map(|(index, id, name, arguments)| json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}}))
                .collect();
            let mut calls = PartialCalls::default();
            let bytes: usize = pieces.iter().map(|piece| calls.take(piece)).sum();
            let all = calls.all();
            prop_assert!(all.len() <= calls.len() && calls.len() <= pieces.len());
            prop_assert!(all.iter().map(|call| call.name.len() + call.arguments.len()).sum::<usize>() <= bytes);
        }
    }
}
