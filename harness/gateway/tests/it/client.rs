//! A client that behaves like real ones: it adds time stamps, rewrites ids and arguments, retries failures, adds transient contexts, and
//! drops compacted history.

use std::time::Duration;

use clawrl_gateway::{
    Arrival, EPOCH_HEADER, Event, Headers, Reply, ReplyCall, RequestId, SESSION_HEADER, SessionTracker,
};
use proptest::prelude::{Strategy, prop_oneof};
use proptest::{collection, sample};
use serde_json::{Value, json};

use crate::tracker::{parse, user};

const STAMP: &str = "[Fri 2026-11-20 09:40 UTC] ";

/// How a client identifies its conversation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Naming {
    Ours,
    OursWithEpoch,
    Affinity,
    RuntimeLine,
    UserField,
    Content,
}

/// A conversation: its user, and how it is identified.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) user: &'static str,
    pub(crate) naming: Naming,
    /// Name of the session, also in its first words if content alone identifies it.
    pub(crate) name: &'static str,
}

/// An action of the user.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Say(&'static str),
    /// A question whose answer has this many calls.
    Call(usize),
    /// A question whose first answer fails.
    Fail,
    /// A question whose first answer is empty.
    Empty,
    Heartbeat,
    /// An edit of the last question.
    Edit(&'static str),
    Compact,
}

/// An input of the gateway.
#[derive(Debug, Clone)]
pub(crate) struct LinkInput {
    pub(crate) user: &'static str,
    pub(crate) request: u64,
    pub(crate) what: What,
    pub(crate) at: Duration,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    Arrived(Headers, Value),
    Answered(Reply),
    Failed,
}

/// Few words, so that different messages look alike.
fn words() -> impl Strategy<Value = &'static str> {
    sample::select(vec!["hi", "go on", "no, wrong"])
}

/// Actions of a conversation without edits.
pub(crate) fn straight() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        words().prop_map(Act::Say),
        (1..3_usize).prop_map(Act::Call),
        sample::select(vec![Act::Fail, Act::Empty, Act::Heartbeat]),
    ];
    collection::vec(act, 1..8)
}

pub(crate) fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        3 => words().prop_map(Act::Say),
        1 => (1..3_usize).prop_map(Act::Call),
        2 => sample::select(vec![Act::Fail, Act::Empty, Act::Heartbeat, Act::Compact]),
        1 => words().prop_map(Act::Edit),
    ];
    collection::vec(act, 1..10)
}

pub(crate) fn naming() -> impl Strategy<Value = Naming> {
    use Naming::{Affinity, Content, Ours, OursWithEpoch, RuntimeLine, UserField};
    sample::select(vec![Ours, OursWithEpoch, Affinity, RuntimeLine, UserField, Content])
}

/// All inputs of a conversation. Requests are numbered from `base`.
pub(crate) fn happenings(identity: &Identity, acts: &[Act], base: u64) -> Vec<LinkInput> {
    let mut client = Client { identity, base, epoch: 0, history: Vec::new(), happened: Vec::new(), sent: 0 };
    acts.iter().for_each(|act| client.act(act));
    client.happened
}

/// Feeds all inputs to `tracker`.
pub(crate) fn tell_all<'a>(
    tracker: &mut SessionTracker,
    happened: impl IntoIterator<Item = &'a LinkInput>,
) -> Vec<Event> {
    let apply = |happening: &LinkInput| {
        let request = RequestId(happening.request);
        let events = match &happening.what {
            What::Arrived(headers, body) => {
                let (user, body) = (user(happening.user), parse(body));
                tracker.arrived(&Arrival { request, user: &user, headers, body: &body, at: happening.at })
            }
            What::Answered(reply) => tracker.answered(request, std::slice::from_ref(reply), happening.at),
            What::Failed => tracker.failed(request, happening.at),
        };
        events.unwrap_or_else(|error| panic!("{error}: {happening:?}"))
    };
    happened.into_iter().flat_map(apply).collect()
}

struct Client<'a> {
    identity: &'a Identity,
    base: u64,
    epoch: u64,
    history: Vec<Value>,
    happened: Vec<LinkInput>,
    sent: u64,
}

impl Client<'_> {
    fn act(&mut self, act: &Act) {
        match act {
            Act::Say(text) => {
                self.push_question(text);
                self.ask_and_keep();
            }
            Act::Call(calls) => {
                self.push_question("look");
                self.request(&[]);
                self.call(*calls);
                self.ask_and_keep();
            }
            Act::Fail => {
                self.push_question("hello");
                self.request(&[]);
                self.ended(What::Failed);
                let asked = self.history.pop();
                let queued =
                    "[Queued user message from a previous active turn; preserved as context only.]\n";
                let text = asked.as_ref().and_then(|asked| asked["content"].as_str()).unwrap_or_default();
                let text = text.strip_prefix(STAMP).unwrap_or(text);
                self.history.push(said(&format!("{STAMP}{queued}{text}")));
                self.request(&[]);
                self.history.pop();
                self.history.extend(asked);
                self.keep(&Reply::text("ok"));
            }
            Act::Empty => {
                self.push_question("hello");
                self.request(&[]);
                self.ended(What::Answered(Reply::text("<think>hm</think>")));
                let note = "The previous attempt did not produce a user-visible answer. Continue.";
                self.request(&[said(&format!("{STAMP}{note}"))]);
                self.keep(&Reply::text("ok"));
            }
            Act::Heartbeat => {
                let text = "Follow the heartbeat monitor scratch context when provided.";
                self.request(&[said(&self.begun(text))]);
                self.ended(What::Answered(Reply::text("NO_REPLY")));
            }
            Act::Edit(text) => {
                while self.history.last().is_some_and(|message| message["role"] != "user") {
                    self.history.pop();
                }
                self.history.pop();
                self.push_question(text);
                self.ask_and_keep();
            }
            Act::Compact => {
                self.epoch += 1;
                let kept = self.history.len().saturating_sub(2);
                let kept = self.history.split_off(kept);
                let summary =
                    "The conversation history before this point was compacted into the following summary:";
                self.history = vec![said(&format!("{summary} {} {}", self.identity.name, self.epoch))];
                self.history.extend(kept.into_iter().filter(|message| message["role"] != "tool"));
            }
        }
    }

    fn push_question(&mut self, text: &str) {
        let text = self.begun(&format!("{STAMP}{text}"));
        self.history.push(said(&text));
    }

    /// `text`, with the conversation's name if it is the first.
    fn begun(&self, text: &str) -> String {
        let Identity { naming, name, .. } = self.identity;
        match naming {
            Naming::RuntimeLine if self.history.is_empty() => {
                format!("{text}\n\nRuntime: agent=main | sessionId={name} | host=vm")
            }
            Naming::Content if self.history.is_empty() => format!("{text} {name}"),
            _ => text.to_owned(),
        }
    }

    /// Sends the history, followed by `more`, which is not kept.
    fn request(&mut self, more: &[Value]) {
        let Identity { naming, name, user } = self.identity;
        let (epoch, name) = (self.epoch.to_string(), (*name).to_owned());
        let headers: Headers = match naming {
            Naming::Ours => vec![(SESSION_HEADER, name.clone())],
            Naming::OursWithEpoch => vec![(SESSION_HEADER, name.clone()), (EPOCH_HEADER, epoch)],
            Naming::Affinity => vec![("x-session-affinity", format!("{name}:{epoch}"))],
            _ => vec![],
        }
        .into_iter()
        .collect();
        let mut messages = vec![json!({"role": "system", "content": format!("prompt {}", self.sent)})];
        messages.extend(self.history.iter().chain(more).cloned());
        messages
            .push(said("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nnone\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"));
        let mut body = json!({ "messages": messages });
        if matches!(naming, Naming::UserField) {
            body["user"] = json!(name);
        }
        self.sent += 1;
        self.happen(user, What::Arrived(headers, body));
    }

    fn happen(&mut self, user: &'static str, what: What) {
        let request = self.base + self.sent - 1;
        let at = Duration::from_secs(self.happened.len() as u64);
        self.happened.push(LinkInput { user, request, what, at });
    }

    fn ended(&mut self, what: What) {
        self.happen(self.identity.user, what);
    }

    fn ask_and_keep(&mut self) {
        self.request(&[]);
        let text = if self.sent.is_multiple_of(2) { " ok" } else { "done\n" };
        self.keep(&Reply::text(text));
    }

    fn keep(&mut self, reply: &Reply) {
        self.history.push(json!({"role": "assistant", "content": reply.text.trim()}));
        self.ended(What::Answered(reply.clone()));
    }

    /// Answers with calls, and adds them with their results as clients write them.
    fn call(&mut self, calls: usize) {
        let call = |place| ReplyCall {
            id: format!("call_{place}"),
            name: "read".to_owned(),
            arguments: format!("{{\"line\": {place}.0}}"),
        };
        let reply = Reply { text: String::new(), calls: (0..calls).map(call).collect() };
        let written = |place: usize| {
            let arguments = json!({ "line": place }).to_string();
            json!({"id": format!("call{place}"), "type": "function", "function": {"name": "read", "arguments": arguments}})
        };
        let written: Vec<Value> = (0..calls).map(written).collect();
        self.history.push(json!({"role": "assistant", "content": null, "tool_calls": written}));
        for place in 0..calls {
            self.history
                .push(json!({"role": "tool", "tool_call_id": format!("call{place}"), "content": "text"}));
        }
        self.ended(What::Answered(reply));
    }
}

fn said(text: &str) -> Value {
    json!({"role": "user", "content": text})
}
