//! Names of the headers that describe a request, and the headers of a request.
//!
//! An empty or malformed value counts as absent: nothing about learning may refuse a conversation.

/// Name of the session: set by the OpenClaw extension, or by any other client.
pub const SESSION_HEADER: &str = "x-clawrl-session";
/// Number of the session's epoch; it rises when the history is compacted or replaced.
pub const EPOCH_HEADER: &str = "x-clawrl-epoch";
/// Kind of the turn: `main` or `side`.
pub const TURN_HEADER: &str = "x-clawrl-turn";
/// What triggered the request: `user`, `heartbeat`, `memory`, `cron`, `manual`, `overflow`.
pub const TRIGGER_HEADER: &str = "x-clawrl-trigger";
/// `true`: the session ends with the answer to this request.
pub const SESSION_END_HEADER: &str = "x-clawrl-session-end";

/// OpenClaw's headers, with `compat.sendSessionAffinityHeaders`: `<session>:<epoch>` in both.
const AFFINITY_HEADERS: [&str; 2] = ["x-session-affinity", "session_id"];

/// ClawRL's headers.
const LINKING_HEADERS: [&str; 5] =
    [SESSION_HEADER, EPOCH_HEADER, TURN_HEADER, TRIGGER_HEADER, SESSION_END_HEADER];

/// Names and values in the order received.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(headers: I) -> Self {
        Self(headers.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl Headers {
    /// The first value under this name in any case, trimmed; `None` if empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(value.trim()).filter(|value| !value.is_empty())
    }

    /// Session and epoch from OpenClaw's headers.
    pub(crate) fn affinity(&self) -> Option<(&str, Option<u64>)> {
        let value = AFFINITY_HEADERS.iter().find_map(|name| self.get(name))?;
        let parted = value.rsplit_once(':').and_then(|(session, epoch)| Some((session, epoch.parse().ok()?)));
        match parted {
            Some((session, epoch)) if !session.is_empty() => Some((session, Some(epoch))),
            _ => Some((value, None)),
        }
    }

    /// The headers that linking reads.
    pub(crate) fn of_linking(&self) -> Self {
        let is_read = |name: &str| {
            let names = LINKING_HEADERS.iter().chain(&AFFINITY_HEADERS);
            names.into_iter().any(|known| known.eq_ignore_ascii_case(name))
        };
        Self(self.0.iter().filter(|(name, _)| is_read(name)).cloned().collect())
    }

    /// Names and values in the order received.
    pub(crate) fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    pub(crate) fn ends_session(&self) -> bool {
        self.get(SESSION_END_HEADER).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(&str, &str)], expected: Option<(&str, Option<u64>)>) {
        assert_eq!(headers.iter().copied().collect::<Headers>().affinity(), expected, "{headers:?}");
    }

    #[test]
    fn affinity() {
        check(&[("X-Session-Affinity", "93db:2")], Some(("93db", Some(2))));
        check(&[("session_id", " agent:main:s1:0 ")], Some(("agent:main:s1", Some(0))));
        check(&[("x-session-affinity", ""), ("session_id", "s1")], Some(("s1", None)));
        check(&[("session_id", "agent:main")], Some(("agent:main", None)));
        check(&[("session_id", ":3")], Some((":3", None)));
        check(&[("session_id", "s1:99999999999999999999999")], Some(("s1:99999999999999999999999", None)));
        check(&[("x-client-request-id", "93db:0")], None);
    }

    #[test]
    fn of_linking_keeps_headers_that_are_read() {
        let all = [("X-Clawrl-Session", "a"), ("authorization", "secret"), ("session_id", "b:1")];
        let kept: Headers = [all[0], all[2]].into_iter().collect();
        assert_eq!(Headers::from_iter(all).of_linking(), kept);
    }

    #[test]
    fn session_ends_only_by_true() {
        let ends = |value: &str| Headers::from_iter([(SESSION_END_HEADER, value)]).ends_session();
        assert!(ends("true") && ends("True"));
        assert!(!ends("false") && !ends("") && !ends("1"));
    }
}
