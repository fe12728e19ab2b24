//! The session that a request claims, and the evidence for it.
//!
//! I1. The user is part of every claim: the name of another user's session names another session. I2. The strongest present [`Evidence`]
//! decides. I3. The `user` field names an end user, not a conversation: among the requests of that user, content decides.

use crate::headers::{EPOCH_HEADER, SESSION_HEADER};
use crate::{ChatRequest, Headers, UserId};

/// How a request was assigned to a session, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// ClawRL's headers.
    Extension,
    /// `x-session-affinity` or `session_id`.
    Affinity,
    /// `sessionId=` in a runtime line of the first user message.
    RuntimeLine,
    /// The `user` field and the history.
    UserField,
    /// The history alone.
    Content,
}

/// The key under which a request looks for its session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SessionKey {
    pub(crate) user: UserId,
    pub(crate) name: SessionName,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum SessionName {
    /// One session at a time.
    Session(String),
    /// Any number of sessions, of the end user in the `user` field.
    Speaker(Option<String>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) key: SessionKey,
    pub(crate) evidence: Evidence,
    pub(crate) epoch: Option<u64>,
}

impl Claim {
    pub(crate) fn of(user: &UserId, headers: &Headers, body: &ChatRequest) -> Self {
        let session = |name: &str| SessionName::Session(name.to_owned());
        let (name, evidence, epoch) = if let Some(name) = headers.get(SESSION_HEADER) {
            let epoch = headers.get(EPOCH_HEADER).and_then(|epoch| epoch.parse().ok());
            (session(name), Evidence::Extension, epoch)
        } else if let Some((name, epoch)) = headers.affinity() {
            (session(name), Evidence::Affinity, epoch)
        } else if let Some(name) =
            body.user_messages().next().and_then(|first| first.runtime_session.as_deref())
        {
            (session(name), Evidence::RuntimeLine, None)
        } else if let Some(speaker) = body.user() {
            (SessionName::Speaker(Some(speaker.to_owned())), Evidence::UserField, None)
        } else {
            (SessionName::Speaker(None), Evidence::Content, None)
        };
        Self { key: SessionKey { user: user.clone(), name }, evidence, epoch }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(
        headers: &[(&str, &str)],
        user: Option<&str>,
        text: &str,
        expected: (Evidence, Option<&str>, Option<u64>),
    ) {
        let body = json!({"user": user, "messages": [{"role": "user", "content": text}]});
        let body = ChatRequest::parse(&body).unwrap_or_else(|error| panic!("{error}"));
        let headers: Headers = headers.iter().copied().collect();
        let Claim { key, evidence, epoch } = Claim::of(&UserId("ada".to_owned()), &headers, &body);
        let name = match &key.name {
            SessionName::Session(name) => Some(name.as_str()),
            SessionName::Speaker(speaker) => speaker.as_deref(),
        };
        assert_eq!((evidence, name, epoch), expected);
    }

    #[test]
    fn i2_strongest_evidence_decides() {
        let ours = [("X-Clawrl-Session", "a"), ("x-clawrl-epoch", "3"), ("session_id", "b:1")];
        let text = "hi\n\nRuntime: agent=main | sessionId=c | host=vm";
        check(&ours, Some("d"), text, (Evidence::Extension, Some("a"), Some(3)));
        check(&ours[2..], Some("d"), text, (Evidence::Affinity, Some("b"), Some(1)));
        check(&[], Some("d"), text, (Evidence::RuntimeLine, Some("c"), None));
        check(&[], Some("d"), "hi", (Evidence::UserField, Some("d"), None));
        check(&[], Some(" "), "hi", (Evidence::Content, None, None));
        check(&[(SESSION_HEADER, " "), (EPOCH_HEADER, "3")], None, "hi", (Evidence::Content, None, None));
        check(
            &[(SESSION_HEADER, "a"), (EPOCH_HEADER, "x")],
            None,
            "hi",
            (Evidence::Extension, Some("a"), None),
        );
    }
}
