//! Which conversation a request says it belongs to, and by what.
//!
//! I1. The user is part of every claim: a name of another user's session means another session. I2. The order of
//! evidence is that of [`Evidence`]; the first that is there decides. I3. The `user` field names somebody who talks, not
//! a conversation: among that somebody's requests, content decides.

use crate::headers::{EPOCH_HEADER, SESSION_HEADER};
use crate::{ChatRequest, Headers, UserId};

/// By what a request was found to belong to a session, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// Our own headers.
    Extension,
    /// `x-session-affinity` or `session_id`.
    Affinity,
    /// `sessionId=` in a runtime line of the first message of a user.
    RuntimeLine,
    /// The `user` field, and content.
    UserField,
    /// Content alone.
    Content,
}

/// Where a request looks for its session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) user: UserId,
    pub(crate) name: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    /// One session at a time.
    Session(String),
    /// Any number of sessions, of whoever the `user` field names.
    Speaker(Option<String>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) place: Place,
    pub(crate) evidence: Evidence,
    pub(crate) epoch: Option<u64>,
}

impl Claim {
    pub(crate) fn of(user: &UserId, headers: &Headers, body: &ChatRequest) -> Self {
        let session = |name: &str| Name::Session(name.to_owned());
        let (name, evidence, epoch) = if let Some(name) = headers.get(SESSION_HEADER) {
            let epoch = headers.get(EPOCH_HEADER).and_then(|epoch| epoch.parse().ok());
            (session(name), Evidence::Extension, epoch)
        } else if let Some((name, epoch)) = headers.affinity() {
            (session(name), Evidence::Affinity, epoch)
        } else if let Some(name) = body.spoken().next().and_then(|first| first.runtime_session.as_deref()) {
            (session(name), Evidence::RuntimeLine, None)
        } else if let Some(speaker) = body.user() {
            (Name::Speaker(Some(speaker.to_owned())), Evidence::UserField, None)
        } else {
            (Name::Speaker(None), Evidence::Content, None)
        };
        Self { place: Place { user: user.clone(), name }, evidence, epoch }
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
        let Claim { place, evidence, epoch } = Claim::of(&UserId("ada".to_owned()), &headers, &body);
        let name = match &place.name {
            Name::Session(name) => Some(name.as_str()),
            Name::Speaker(speaker) => speaker.as_deref(),
        };
        assert_eq!((evidence, name, epoch), expected);
    }

    #[test]
    fn i2_evidence_in_its_order() {
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
