//! A session tracker that numbers requests itself and returns short descriptions of the events.

use std::time::Duration;

use clawrl_gateway::{
    Arrival, ChatRequest, Event, Headers, NewMessageKind, NextState, Reply, RequestId, SessionTracker,
    TurnKind, UserId,
};
use serde_json::Value;

#[derive(Default)]
pub(crate) struct Gateway {
    pub(crate) tracker: SessionTracker,
    pub(crate) at: Duration,
    last: u64,
}

pub(crate) fn user(name: &str) -> UserId {
    UserId(name.to_owned())
}

pub(crate) fn parse(body: &Value) -> ChatRequest {
    ChatRequest::parse(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

impl Gateway {
    /// The next request, of Ada.
    pub(crate) fn request(&mut self, headers: &Headers, body: &Value) -> Vec<String> {
        self.request_of("ada", headers, body)
    }

    pub(crate) fn request_of(&mut self, name: &str, headers: &Headers, body: &Value) -> Vec<String> {
        self.last += 1;
        let arrival = Arrival {
            request: RequestId(self.last),
            user: &user(name),
            headers,
            body: &parse(body),
            at: self.at,
        };
        describe_all(self.tracker.arrived(&arrival).unwrap())
    }

    /// Answers the last request.
    pub(crate) fn answer(&mut self, reply: &Reply) -> Vec<String> {
        self.answer_all(std::slice::from_ref(reply))
    }

    pub(crate) fn answer_all(&mut self, replies: &[Reply]) -> Vec<String> {
        describe_all(self.tracker.answered(RequestId(self.last), replies, self.at).unwrap())
    }

    pub(crate) fn say(&mut self, text: &str) -> Vec<String> {
        self.answer(&Reply::text(text))
    }

    /// Fails the last request.
    pub(crate) fn fail(&mut self) -> Vec<String> {
        describe_all(self.tracker.failed(RequestId(self.last), self.at).unwrap())
    }
}

pub(crate) fn describe_all(events: Vec<Event>) -> Vec<String> {
    events.iter().map(describe).collect()
}

fn describe(event: &Event) -> String {
    match event {
        Event::SessionOpened { session, evidence } => format!("session {session} by {evidence:?}"),
        Event::TurnOpened { turn, kind, parent, epoch, .. } => {
            let parent = parent.map(|parent| format!(" after {parent}")).unwrap_or_default();
            let epoch = if *epoch == 0 { String::new() } else { format!(" in epoch {epoch}") };
            format!("turn {turn}{parent}{epoch}: {}", kind_of(kind))
        }
        Event::Retry { turn, request, kind, .. } => {
            format!("{request} is turn {turn} again: {}", kind_of(kind))
        }
        Event::Branched { turn, sibling, .. } => format!("turn {turn} is a sibling of {sibling}"),
        Event::TurnAnswered { turn, request, .. } => format!("turn {turn} answered in {request}"),
        Event::TurnUnanswered { turn, request, why, .. } => {
            format!("turn {turn} not answered in {request}: {why:?}")
        }
        Event::NextState(next) => next_state(next),
        Event::Feedback { request, reaction, latest, .. } => {
            let latest = latest.map(|turn| format!(" after {turn}")).unwrap_or_default();
            format!("{} by {} in {request}{latest}", reaction.emoji, reaction.by)
        }
        Event::EpochClosed { epoch, request, why, .. } => format!("epoch {epoch} over in {request}: {why:?}"),
        Event::SessionClosed { session, why, without_next_state } => {
            let open: Vec<String> = without_next_state.iter().map(ToString::to_string).collect();
            format!("session {session} over: {why:?}, open [{}]", open.join(" "))
        }
    }
}

fn kind_of(kind: &TurnKind) -> String {
    match kind {
        TurnKind::Main => "main".to_owned(),
        TurnKind::Side(mark) => format!("side, {mark}"),
        TurnKind::Unknown(doubt) => format!("unknown, {doubt}"),
    }
}

fn next_state(next: &NextState) -> String {
    let message = |message: &clawrl_gateway::NewMessage| match message.kind {
        NewMessageKind::ToolResult(Some(call)) => format!("result of call {call} at {}", message.index),
        NewMessageKind::ToolResult(None) => format!("result at {}", message.index),
        NewMessageKind::User => format!("user at {}", message.index),
        NewMessageKind::SystemEvent => format!("event at {}", message.index),
    };
    let messages: Vec<String> = next.messages.iter().map(message).collect();
    let missing = match next.calls_without_result {
        0 => String::new(),
        calls => format!(", {calls} calls without result"),
    };
    format!("next of {} is in {} by {:?}: {}{missing}", next.turn, next.request, next.by, messages.join(", "))
}
