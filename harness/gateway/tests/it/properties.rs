//! Invariants, numbered as in `SessionTracker`.

use std::collections::BTreeMap;
use std::time::Duration;

use clawrl_gateway::{
    Arrival, ChatRequest, Event, Headers, Match, Reply, RequestId, SessionId, SessionTracker, TurnId,
    TurnKind,
};
use proptest::prelude::*;
use proptest::{collection, sample};
use serde_json::{Value, json};

use crate::client::{self, Act, Identity, LinkInput, Naming, What};
use crate::tracker::user;

/// First request number of the second conversation.
const SECOND: u64 = 1000;

fn identity(user: &'static str, naming: Naming, name: &'static str) -> Identity {
    Identity { user, naming, name }
}

/// `one` and `other`, each in order, interleaved by `picks`.
fn mixed(one: &[LinkInput], other: &[LinkInput], picks: &[bool]) -> Vec<LinkInput> {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    let mut picks = picks.iter().copied().cycle();
    let mut mixed = Vec::new();
    while one.peek().is_some() || other.peek().is_some() {
        let first = picks.next().unwrap_or(true);
        let next =
            if first { one.next().or_else(|| other.next()) } else { other.next().or_else(|| one.next()) };
        mixed.extend(next.cloned());
    }
    mixed
}

fn alone(happened: &[LinkInput]) -> Vec<Event> {
    let mut tracker = SessionTracker::default();
    let mut events = client::tell_all(&mut tracker, happened);
    events.extend(tracker.expire(Duration::MAX));
    events
}

/// Checks that two interleaved conversations are linked as each alone.
fn check_mixed(one: &[LinkInput], other: &[LinkInput], picks: &[bool]) -> Result<(), TestCaseError> {
    let together = alone(&mixed(one, other, picks));
    let (first, second): (Vec<Event>, Vec<Event>) =
        together.into_iter().partition(|event| event.session() < SessionId(RequestId(SECOND)));
    prop_assert_eq!(first, alone(one));
    prop_assert_eq!(second, alone(other));
    Ok(())
}

fn next_states(events: &[Event]) -> BTreeMap<TurnId, usize> {
    let mut states = BTreeMap::new();
    for event in events {
        if let Event::NextState(next) = event {
            *states.entry(next.turn).or_default() += 1;
        }
    }
    states
}

proptest! {
    #[test]
    fn i5_interleaved_sessions_link_as_each_alone(
        one in client::acts(),
        other in client::acts(),
        namings in (client::naming(), client::naming()),
        picks in collection::vec(any::<bool>(), 1..20),
    ) {
        // If content alone identifies conversations, two that start with the same heartbeat are one.
        let is_beaten = |acts: &[Act], naming| matches!((acts.first(), naming), (Some(Act::Heartbeat), Naming::Content));
        prop_assume!(!(is_beaten(&one, namings.0) && is_beaten(&other, namings.1)));
        let one = client::happenings(&identity("ada", namings.0, "s1"), &one, 1);
        let other = client::happenings(&identity("ada", namings.1, "s2"), &other, SECOND);
        check_mixed(&one, &other, &picks)?;
    }

    #[test]
    fn i1_another_users_session_never_links(
        acts in client::acts(),
        other in client::acts(),
        naming in client::naming(),
        picks in collection::vec(any::<bool>(), 1..20),
    ) {
        // The same name and even the same words.
        let one = client::happenings(&identity("ada", naming, "s1"), &acts, 1);
        let same = client::happenings(&identity("bob", naming, "s1"), &acts, SECOND);
        check_mixed(&one, &same, &picks)?;
        let other = client::happenings(&identity("bob", naming, "s1"), &other, SECOND);
        check_mixed(&one, &other, &picks)?;
    }

    #[test]
    fn i3_replaying_changes_nothing(acts in client::acts(), naming in client::naming(), times in 1..3_u64) {
        let happened = client::happenings(&identity("ada", naming, "s1"), &acts, 1);
        let mut tracker = SessionTracker::default();
        let first = client::tell_all(&mut tracker, &happened);
        for time in 1..=times {
            let again = happened.iter().cloned().map(|mut happening| {
                happening.request += time * SECOND;
                happening
            });
            let events = client::tell_all(&mut tracker, &again.collect::<Vec<_>>());
            let turns = |events: &[Event]| -> Vec<TurnId> {
                let turn = |event: &Event| match event {
                    Event::TurnOpened { turn, .. } | Event::Retry { turn, .. } => Some(*turn),
                    _ => None,
                };
                events.iter().filter_map(turn).collect()
            };
            prop_assert_eq!(turns(&events), turns(&first));
            for event in events {
                let is_same = matches!(
                    event,
                    Event::Retry { .. } | Event::TurnAnswered { .. } | Event::TurnUnanswered { .. }
                );
                prop_assert!(is_same, "{event:?}");
            }
        }
    }

    #[test]
    fn i3_sending_all_twice_links_as_once(acts in client::acts(), naming in client::naming()) {
        let happened = client::happenings(&identity("ada", naming, "s1"), &acts, 1);
        let once = alone(&happened);
        // Each request is repeated before the first one is answered, and then fails.
        let twice = happened.iter().flat_map(|happening| {
            let again = |what: What| LinkInput { request: happening.request + SECOND, what, ..happening.clone() };
            match &happening.what {
                What::Arrived(..) => {
                    vec![happening.clone(), again(happening.what.clone()), again(What::Failed)]
                }
                _ => vec![happening.clone()],
            }
        });
        let is_of_first = |event: &Event| match event {
            Event::Retry { request, .. } | Event::TurnUnanswered { request, .. } => request.0 < SECOND,
            _ => true,
        };
        let twice: Vec<Event> = alone(&twice.collect::<Vec<_>>()).into_iter().filter(is_of_first).collect();
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn conversations_that_go_straight_on_link_in_order(acts in client::straight(), naming in client::naming()) {
        let happened = client::happenings(&identity("ada", naming, "s1"), &acts, 1);
        let events = alone(&happened);
        let main = |event: &Event| match event {
            Event::TurnOpened { turn, kind: TurnKind::Main, .. } => Some(*turn),
            _ => None,
        };
        let turns: Vec<TurnId> = events.iter().filter_map(main).collect();
        let link = |event: &Event| match event {
            Event::NextState(next) => Some((next.turn, TurnId(next.request), next.by, next.calls_without_result)),
            _ => None,
        };
        let links: Vec<_> = events.iter().filter_map(link).collect();
        let expected: Vec<_> = turns.windows(2).map(|pair| (pair[0], pair[1], Match::History, 0)).collect();
        prop_assert_eq!(links, expected);
        let asked = acts.iter().map(|act| match act {
            Act::Heartbeat => 0,
            Act::Call(_) => 2,
            _ => 1,
        });
        prop_assert_eq!(turns.len(), asked.sum::<usize>());
    }

    #[test]
    fn i2_no_turn_has_two_next_states(
        requests in collection::vec((history(), words(), any::<bool>()), 1..40),
        naming in sample::select(vec![true, false]),
    ) {
        let headers: Headers = if naming { vec![("session_id", "s")] } else { vec![] }.into_iter().collect();
        let mut tracker = SessionTracker::default();
        let mut events = Vec::new();
        for (number, (messages, reply, is_answered)) in requests.into_iter().enumerate() {
            let request = RequestId(number as u64);
            let Ok(body) = ChatRequest::parse(&json!({ "messages": messages })) else { continue };
            let at = Duration::ZERO;
            let arrival = Arrival { request, user: &user("ada"), headers: &headers, body: &body, at };
            events.extend(tracker.arrived(&arrival).unwrap());
            let reply = Reply::text(reply);
            let ended = if is_answered { tracker.answered(request, &[reply], at) } else { tracker.failed(request, at) };
            events.extend(ended.unwrap());
        }
        for (turn, states) in next_states(&events) {
            prop_assert_eq!(states, 1, "turn {}", turn);
        }
    }

    #[test]
    fn any_json_parses_or_is_an_error(body in wild_body(), name in "[a-z:0-9 ]{0,6}", epoch in "[a-z0-9]{0,3}") {
        let Ok(body) = ChatRequest::parse(&body) else { return Ok(()) };
        let headers: Headers = [("session_id", format!("{name}:{epoch}")), ("x-clawrl-turn", epoch)].into_iter().collect();
        let mut tracker = SessionTracker::default();
        let arrive = |tracker: &mut SessionTracker, number| {
            let arrival = Arrival {
                request: RequestId(number),
                user: &user("ada"),
                headers: &headers,
                body: &body,
                at: Duration::ZERO,
            };
            tracker.arrived(&arrival).unwrap()
        };
        let opened = arrive(&mut tracker, 1);
        prop_assert!(opened.iter().any(|event| matches!(event, Event::TurnOpened { .. })), "{opened:?}");
        let again = arrive(&mut tracker, 2);
        prop_assert!(matches!(again[..], [Event::Retry { .. }]), "{again:?}");
    }

    #[test]
    fn any_text_is_read(text in "(\\[|\\]|<<<|Fri|2026-11-20|09:40|UTC|é| |\n|\\||Runtime: agent=|sessionId=|System: |<think>|</think>|[a-z]){0,30}") {
        for role in ["system", "user", "assistant", "tool"] {
            let body = json!({"messages": [{"role": role, "content": text, "tool_call_id": "a"}]});
            let read = ChatRequest::parse(&body);
            prop_assert!(read.is_ok(), "{read:?}");
        }
        let aside = format!("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>{text}<<<END_OPENCLAW_INTERNAL_CONTEXT>>>");
        let read = ChatRequest::parse(&json!({"messages": [{"role": "user", "content": aside}]}));
        prop_assert!(read.is_ok(), "{read:?}");
    }
}

fn words() -> impl Strategy<Value = &'static str> {
    sample::select(vec!["a", "b", ""])
}

/// Messages in random order, from a small set.
fn history() -> impl Strategy<Value = Vec<Value>> {
    let role = sample::select(vec!["user", "assistant", "user", "assistant", "system"]);
    let message = (role, words()).prop_map(|(role, text)| json!({"role": role, "content": text}));
    collection::vec(message, 1..7)
}

/// JSON that resembles a request, or does not.
fn wild_body() -> impl Strategy<Value = Value> {
    let key = || {
        sample::select(vec![
            "messages",
            "role",
            "content",
            "tool_calls",
            "tool_call_id",
            "function",
            "name",
            "arguments",
            "type",
            "text",
            "user",
            "tools",
            "max_tokens",
            "id",
            "x",
        ])
    };
    let word = sample::select(vec![
        "user",
        "assistant",
        "tool",
        "system",
        "developer",
        "text",
        "function",
        "{\"a\":1}",
        "",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.prop_map(Value::from),
    ];
    let wild = leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            collection::vec((key(), inner), 0..5).prop_map(|entries| {
                Value::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    });
    let role = sample::select(vec!["user", "assistant", "tool", "system", "developer"]);
    let message = (role, wild.clone(), wild.clone(), wild.clone()).prop_map(|(role, content, calls, id)| {
        json!({"role": role, "content": content, "tool_calls": calls, "tool_call_id": id})
    });
    let near = (collection::vec(message, 0..4), wild.clone()).prop_map(|(messages, tools)| {
        json!({"messages": messages, "tools": if tools.is_array() { tools } else { Value::Null }})
    });
    prop_oneof![1 => wild, 3 => near]
}
