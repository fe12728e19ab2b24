//! One choice of an answer in progress.
//!
//! I1. The text that is sent, the text that is recorded, and the finish reason agree. I2. Nothing follows a stop sequence, or the first
//! call if one call was requested. I3. Ids and log-probabilities are those of all sampled tokens, including the end token and a stop
//! sequence.

use clawrl_core::openai::finish_reason;
use clawrl_core::{Reads, ReplyParser, ReplyPart, Usage};
use serde_json::{Value, json};

use super::completion_params::{CompletionKind, CompletionParams};
use crate::{Delta, End, Piece, ReplyCall, StartedAnswer, StopScanner, Token, Utf8Assembly};

/// Initial capacity in tokens: most answers are shorter, or much longer.
const TOKEN_CAPACITY: usize = 128;

/// A choice.
#[derive(Debug)]
pub(super) struct Choice {
    kind: CompletionKind,
    /// No stop sequence, no log-probabilities, and no partial character: tokens can be passed through.
    is_plain: bool,
    utf8: Utf8Assembly,
    stops: Option<StopScanner>,
    parser: Option<ReplyParser>,
    one_call: bool,
    /// Prefix of call ids.
    call_prefix: String,
    text: String,
    reasoning: String,
    calls: Vec<ReplyCall>,
    tokens: Tokens,
    /// Log-probabilities in OpenAI's format, if requested.
    entries: Option<Vec<Value>>,
    /// Number of them that were returned.
    returned: usize,
    finish: Option<&'static str>,
    usage: Option<Usage>,
}

/// Sampled tokens.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    pub(super) prompt_ids: Option<std::sync::Arc<[u32]>>,
    pub(super) adapter: Option<String>,
    /// Ids and log-probabilities, interleaved for cache locality.
    pub(super) sampled: Vec<(u32, f32)>,
    /// Index of the first token and version, ascending.
    pub(super) versions: Vec<(usize, u64)>,
    /// The last version.
    version: Option<u64>,
}

impl Tokens {
    fn add(&mut self, token: &Token) {
        if self.version != Some(token.version) {
            self.version = Some(token.version);
            self.versions.push((self.sampled.len(), token.version));
        }
        self.sampled.push((token.id, token.logprob));
    }
}

impl Choice {
    /// A choice without pieces.
    pub(super) fn new(
        kind: CompletionKind,
        params: &CompletionParams,
        started: &StartedAnswer,
        call_prefix: String,
    ) -> Self {
        let reads = Reads { calls: params.calls, in_reasoning: started.in_reasoning };
        Self {
            kind,
            is_plain: false,
            utf8: Utf8Assembly::default(),
            stops: Some(StopScanner::new(&params.stops)),
            parser: Some(ReplyParser::new(reads)),
            one_call: params.one_call,
            call_prefix,
            text: String::with_capacity(4 * TOKEN_CAPACITY),
            reasoning: String::new(),
            calls: Vec::new(),
            tokens: Tokens {
                prompt_ids: started.prompt_ids.clone(),
                adapter: started.adapter.clone(),
                sampled: Vec::with_capacity(TOKEN_CAPACITY),
                versions: Vec::new(),
                version: None,
            },
            entries: params.sampling.top_logprobs.map(|_| Vec::new()),
            returned: 0,
            finish: None,
            usage: None,
        }
    }

    /// Takes a token that is only text and returns the text, like [`Self::take`] in fewer steps: most tokens are, without stop sequences
    /// and log-probabilities. Otherwise takes nothing and returns `None`.
    pub(super) fn take_plain<'a>(&mut self, piece: &'a Piece) -> Option<&'a str> {
        let (Piece::Token(token), true) = (piece, self.is_plain) else { return None };
        let text = str::from_utf8(&token.bytes).ok().filter(|text| !text.is_empty())?;
        let lets_pass = |parser: &ReplyParser| parser.lets_pass(text);
        if self.kind == CompletionKind::Chat && !self.parser.as_ref().is_some_and(lets_pass) {
            return None;
        }
        self.tokens.add(token);
        self.text.push_str(text);
        Some(text)
    }

    /// Takes a piece, and returns the parts that are complete. Check [`Self::has_ended`] afterwards.
    pub(super) fn take(&mut self, piece: Piece) -> Vec<ReplyPart> {
        let parts = self.take_apart(piece);
        self.is_plain = self.finish.is_none()
            && self.entries.is_none()
            && self.utf8.is_idle()
            && self.stops.as_ref().is_some_and(StopScanner::is_idle);
        parts
    }

    fn take_apart(&mut self, piece: Piece) -> Vec<ReplyPart> {
        if self.has_ended() {
            return Vec::new();
        }
        // An upstream answer continues to its end, which is near and has the token counts.
        let is_sampled_here = matches!(piece, Piece::Token(_));
        let mut parts = match piece {
            Piece::Token(token) => self.token(&token),
            Piece::Delta(_) if self.one_call && !self.calls.is_empty() => return Vec::new(),
            Piece::Delta(delta) => self.delta(delta),
            Piece::Sampled(sampled) => {
                self.sampled(&sampled);
                return Vec::new();
            }
            Piece::End(end) => return self.end(end),
        };
        if let Some(first) = parts.iter().position(|part| matches!(part, ReplyPart::Call { .. }))
            && self.one_call
        {
            parts.truncate(first + 1);
            self.append(&parts);
            self.finish = is_sampled_here.then_some("tool_calls");
            return parts;
        }
        self.append(&parts);
        if self.stops.as_ref().is_some_and(StopScanner::is_stopped) {
            let rest = self.rest(String::new());
            self.append(&rest);
            parts.extend(rest);
            self.finish = Some(if self.calls.is_empty() { "stop" } else { "tool_calls" });
        }
        parts
    }

    pub(super) fn has_ended(&self) -> bool {
        self.finish.is_some()
    }

    /// `stop`, `length`, `tool_calls` or `content_filter`.
    pub(super) fn finish_reason(&self) -> &'static str {
        self.finish.unwrap_or("length")
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn reasoning(&self) -> &str {
        &self.reasoning
    }

    pub(super) fn calls(&self) -> &[ReplyCall] {
        &self.calls
    }

    pub(super) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Token counts of prompt and answer.
    pub(super) fn usage(&self) -> Usage {
        let counted = || {
            let prompt = self.tokens.prompt_ids.as_ref().map_or(0, |ids| ids.len() as u64);
            Usage::reported(prompt, self.tokens.sampled.len() as u64)
        };
        self.usage.clone().unwrap_or_else(counted)
    }

    /// All log-probabilities; `None` if not requested.
    pub(super) fn logprobs(&self) -> Option<Vec<Value>> {
        self.entries.clone()
    }

    /// Log-probabilities that were not returned yet.
    pub(super) fn new_logprobs(&mut self) -> Option<Vec<Value>> {
        let entries = self.entries.as_ref()?;
        let new = entries[self.returned..].to_vec();
        self.returned = entries.len();
        (!new.is_empty()).then_some(new)
    }

    fn token(&mut self, token: &Token) -> Vec<ReplyPart> {
        self.tokens.add(token);
        if let Some(entries) = &mut self.entries {
            let others: Vec<Value> =
                token.most_probable.iter().map(|(bytes, logprob)| entry(bytes, "", *logprob)).collect();
            let mut entry = entry(&token.bytes, &token.name, token.logprob);
            entry["top_logprobs"] = others.into();
            entries.push(entry);
        }
        let text = self.utf8.push(&token.bytes);
        self.read(&text)
    }

    fn delta(&mut self, delta: Delta) -> Vec<ReplyPart> {
        let Delta { text, reasoning, calls, logprobs } = delta;
        if let Some(entries) = &mut self.entries {
            entries.extend(logprobs);
        }
        let calls = calls.into_iter().map(|(name, arguments)| ReplyPart::Call { name, arguments });
        let texts = [ReplyPart::Reasoning(reasoning), ReplyPart::Text(text)].into_iter();
        let texts = texts.filter(
            |part| !matches!(part, ReplyPart::Reasoning(text) | ReplyPart::Text(text) if text.is_empty()),
        );
        texts.chain(calls).collect()
    }

    fn sampled(&mut self, sampled: &[(u32, f32)]) {
        if !sampled.is_empty() && self.tokens.versions.is_empty() {
            self.tokens.versions.push((0, 0));
            self.tokens.version = Some(0);
        }
        self.tokens.sampled.extend_from_slice(sampled);
    }

    fn end(&mut self, end: End) -> Vec<ReplyPart> {
        self.usage = end.usage;
        let text = std::mem::take(&mut self.utf8).end();
        let rest = self.rest(text);
        self.append(&rest);
        let reason = finish_reason(end.finish, !self.calls.is_empty());
        self.finish = Some(if self.is_stopped() { "stop" } else { reason });
        rest
    }

    fn is_stopped(&self) -> bool {
        self.stops.as_ref().is_some_and(StopScanner::is_stopped)
    }

    /// Parts that this text completes.
    fn read(&mut self, text: &str) -> Vec<ReplyPart> {
        let released = self.stops.as_mut().map(|stops| stops.push(text)).unwrap_or_default();
        self.part(&released)
    }

    fn part(&mut self, text: &str) -> Vec<ReplyPart> {
        if self.kind == CompletionKind::Text {
            let part = (!text.is_empty()).then(|| ReplyPart::Text(text.to_owned()));
            return part.into_iter().collect();
        }
        self.parser.as_mut().map(|parser| parser.push(text)).unwrap_or_default()
    }

    /// Parts that were held back, and this text before them.
    fn rest(&mut self, text: String) -> Vec<ReplyPart> {
        let mut parts = self.read(&text);
        // Text that was held back as the possible start of a stop sequence.
        if !self.is_stopped() {
            let held = self.stops.take().map(StopScanner::end).unwrap_or_default();
            parts.extend(self.part(&held));
        }
        if self.kind == CompletionKind::Chat {
            parts.extend(self.parser.take().map(ReplyParser::end).unwrap_or_default());
        }
        parts
    }

    fn append(&mut self, parts: &[ReplyPart]) {
        for part in parts {
            match part {
                ReplyPart::Text(text) => self.text.push_str(text),
                ReplyPart::Reasoning(text) => self.reasoning.push_str(text),
                ReplyPart::Call { name, arguments } => {
                    let id = format!("{}{:02x}", self.call_prefix, self.calls.len());
                    self.calls.push(ReplyCall { id, name: name.clone(), arguments: arguments.clone() });
                }
            }
        }
    }
}

fn entry(bytes: &[u8], name: &str, logprob: f32) -> Value {
    let text = if bytes.is_empty() { name.into() } else { String::from_utf8_lossy(bytes) };
    // JSON has no infinity; OpenAI and vLLM use this value for impossible tokens.
    let logprob = if logprob.is_finite() { logprob } else { -9999.0 };
    json!({"token": text, "logprob": logprob, "bytes": bytes})
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use clawrl_core::FinishReason;
    use futures_util::StreamExt;

    use super::*;

    fn choice(kind: CompletionKind, settings: Value) -> Choice {
        let params = CompletionParams::parse(settings.as_object().unwrap(), kind, 1).unwrap();
        let started = StartedAnswer {
            prompt_ids: Some(Arc::from([1, 2, 3])),
            in_reasoning: false,
            adapter: None,
            pieces: futures_util::stream::empty().boxed(),
        };
        Choice::new(kind, &params, &started, "callx".to_owned())
    }

    fn token(text: &str) -> Piece {
        Piece::Token(Token {
            id: 9,
            bytes: text.as_bytes().to_vec(),
            logprob: -0.5,
            version: 4,
            ..Token::default()
        })
    }

    fn whole() -> Piece {
        Piece::End(End { finish: FinishReason::Stop, usage: None })
    }

    /// Checks the text, the number of calls, the finish reason, and the number of sampled tokens.
    fn check(mut choice: Choice, pieces: Vec<Piece>, text: &str, calls: usize, reason: &str, sampled: usize) {
        let mut shown = String::new();
        for piece in pieces {
            for part in choice.take(piece) {
                if let ReplyPart::Text(text) = part {
                    shown += &text;
                }
            }
        }
        assert_eq!((choice.text(), shown.as_str()), (text, text));
        assert_eq!((choice.calls().len(), choice.finish_reason(), choice.has_ended()), (calls, reason, true));
        assert_eq!(choice.tokens().sampled.len(), sampled);
        assert_eq!(choice.usage(), Usage::reported(3, sampled as u64));
    }

    #[test]
    fn choice_ends_by_itself_by_limit_or_by_stop() {
        let plain = || choice(CompletionKind::Chat, json!({}));
        check(plain(), vec![token("Hel"), token("lo "), token(""), whole()], "Hello ", 0, "stop", 3);
        let cut = Piece::End(End { finish: FinishReason::Length, usage: None });
        check(plain(), vec![token("Hel"), cut], "Hel", 0, "length", 1);
        let filtered = Piece::End(End { finish: FinishReason::ContentFilter, usage: None });
        check(plain(), vec![token("Hel"), filtered], "Hel", 0, "content_filter", 1);
        let stop = || choice(CompletionKind::Chat, json!({"stop": "END"}));
        check(stop(), vec![token("a E"), token("ND b"), token("c")], "a ", 0, "stop", 2);
        check(stop(), vec![token("a E"), token("N"), whole()], "a EN", 0, "stop", 2);
        check(
            choice(CompletionKind::Text, json!({})),
            vec![token("<think>a"), whole()],
            "<think>a",
            0,
            "stop",
            1,
        );
    }

    #[test]
    fn deltas_of_a_server_keep_their_tokens() {
        let said = |text: &str| Piece::Delta(Delta { text: text.to_owned(), ..Delta::default() });
        let call = Delta { calls: vec![("f".to_owned(), "{}".to_owned())], ..Delta::default() };
        let sampled = || Piece::Sampled(vec![(4, -0.5), (5, -0.25)]);
        let pieces = vec![said("<think>a"), said("b"), sampled(), Piece::Delta(call.clone()), whole()];
        check(choice(CompletionKind::Chat, json!({"stop": "ab"})), pieces, "<think>ab", 1, "tool_calls", 2);
        // Nothing follows the first call; tokens and upstream counts are kept.
        let one = choice(CompletionKind::Chat, json!({"tools": [{}], "parallel_tool_calls": false}));
        check(one, vec![sampled(), Piece::Delta(call), whole()], "", 1, "tool_calls", 2);
        let mut one = choice(CompletionKind::Chat, json!({"tools": [{}], "parallel_tool_calls": false}));
        let call = ("f".to_owned(), "{}".to_owned());
        let two = Piece::Delta(Delta { calls: vec![call.clone(), call], ..Delta::default() });
        assert_eq!((one.take(two.clone()).len(), one.take(two).len(), one.has_ended()), (1, 0, false));
        let usage = Usage::reported(9, 4);
        one.take(Piece::End(End { finish: FinishReason::Stop, usage: Some(usage.clone()) }));
        assert_eq!((one.calls().len(), one.finish_reason(), one.usage()), (1, "tool_calls", usage));
        let mut kept = choice(CompletionKind::Chat, json!({}));
        kept.take(sampled());
        assert_eq!(
            (kept.tokens().sampled.as_slice(), kept.tokens().versions.as_slice()),
            ([(4, -0.5), (5, -0.25)].as_slice(), [(0, 0)].as_slice())
        );
    }

    #[test]
    fn calls_end_an_answer() {
        let call = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
        let tools = || choice(CompletionKind::Chat, json!({"tools": [{}]}));
        check(tools(), vec![token("Hm "), token(call), token(call), whole()], "Hm", 2, "tool_calls", 3);
        let one = choice(CompletionKind::Chat, json!({"tools": [{}], "parallel_tool_calls": false}));
        check(one, vec![token(call), token(call), whole()], "", 1, "tool_calls", 1);
        let mut ids = tools();
        ids.take(token(&format!("{call}{call}")));
        assert_eq!(
            ids.calls().iter().map(|call| call.id.as_str()).collect::<Vec<_>>(),
            ["callx00", "callx01"]
        );
    }

    #[test]
    fn log_probabilities_are_given_once() {
        let mut choice = choice(CompletionKind::Chat, json!({"logprobs": true, "top_logprobs": 1}));
        assert_eq!(choice.new_logprobs(), None);
        let most_probable = vec![(b"b".to_vec(), -0.25), (vec![0xc3], f32::NEG_INFINITY)];
        choice.take(Piece::Token(Token {
            bytes: b"a".to_vec(),
            logprob: -1.5,
            most_probable,
            ..Token::default()
        }));
        let entry = json!({"token": "a", "logprob": -1.5, "bytes": [97], "top_logprobs": [
            {"token": "b", "logprob": -0.25, "bytes": [98]}, {"token": "\u{fffd}", "logprob": -9999.0, "bytes": [195]}]});
        assert_eq!(choice.new_logprobs(), Some(vec![entry]));
        assert_eq!(choice.new_logprobs(), None);
        choice.take(Piece::Token(Token { name: "<|end|>".to_owned(), ..Token::default() }));
        assert_eq!(choice.new_logprobs().unwrap()[0]["token"], "<|end|>");
        assert_eq!(choice.logprobs().unwrap().len(), 2);
    }

    /// [`Choice::take_plain`] gives the same result in fewer steps.
    #[test]
    fn take_plain_equals_take() {
        let mut plain = 0;
        for (kind, settings) in [
            (CompletionKind::Chat, json!({})),
            (CompletionKind::Text, json!({})),
            (CompletionKind::Chat, json!({"tools": [{}]})),
            (CompletionKind::Chat, json!({"stop": "END"})),
            (CompletionKind::Text, json!({"stop": "END"})),
            (CompletionKind::Chat, json!({"logprobs": true})),
        ] {
            let (mut one, mut other) = (choice(kind, settings.clone()), choice(kind, settings.clone()));
            let bytes: [&[u8]; 12] =
                [b" ", b"a", b"b ", b"", b"\xc3", b"\xa4", b"x EN", b"D", b"c", b"<", b"tool", b"_cal"];
            for (at, bytes) in bytes.into_iter().enumerate() {
                let version = at as u64 / 4;
                let token = Token { id: at as u32, bytes: bytes.to_vec(), version, ..Token::default() };
                let piece = Piece::Token(token);
                let parts = other.take(piece.clone());
                match one.take_plain(&piece) {
                    Some(text) => {
                        assert_eq!(parts, [ReplyPart::Text(text.to_owned())], "{kind:?} {settings}");
                        plain += 1;
                    }
                    None => assert_eq!(one.take(piece), parts, "{kind:?} {settings}"),
                }
            }
            assert_eq!(
                (one.take(whole()), one.finish_reason()),
                (other.take(whole()), other.finish_reason())
            );
            assert_eq!((one.text(), one.usage()), (other.text(), other.usage()));
            let (one, other) = (one.tokens(), other.tokens());
            assert_eq!((&one.sampled, &one.versions), (&other.sampled, &other.versions));
        }
        // Chat, where leading white space may precede reasoning; text; and with tools, where a call may follow `b ` and `<`.
        assert_eq!(plain, 7 + 8 + 3);
    }

    #[test]
    fn versions_are_segments() {
        let mut choice = choice(CompletionKind::Chat, json!({}));
        for version in [4, 4, 5] {
            choice.take(Piece::Token(Token { version, ..Token::default() }));
        }
        assert_eq!(choice.tokens().versions, [(0, 4), (2, 5)]);
    }
}
