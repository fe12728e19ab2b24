//! Limits of the server.

use std::time::Duration;

/// Settings of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// Names of this server besides the loopback's, as in `Host`: `host`, or `host:port`.
    pub hosts: Vec<String>,
    /// Maximum size of a body, in bytes.
    pub body_bytes: usize,
    /// Time limit of a body.
    pub body_time: Duration,
    /// Time limit of a request's head, and of an idle connection.
    pub head_time: Duration,
    /// Maximum number of connections; further ones wait.
    pub connections: usize,
    /// Maximum number of concurrent answers; further requests get 503.
    pub answers: usize,
    /// The same per user; further requests get 429.
    pub answers_of_user: usize,
    /// Interval of keep-alive comments in quiet streams.
    pub keep_alive: Duration,
    /// Time after which an answer that has not started is streamed; until then, an error has its own HTTP status.
    pub begin_grace: Duration,
    /// Time after which a client that does not read is disconnected.
    pub stall: Duration,
    /// Lifetime of a login to the pages.
    pub login: Duration,
    /// Time limit for running answers at shutdown.
    pub drain: Duration,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            body_bytes: 8 << 20,
            body_time: Duration::from_secs(30),
            head_time: Duration::from_secs(30),
            connections: 2048,
            answers: 1024,
            answers_of_user: 512,
            keep_alive: Duration::from_secs(10),
            begin_grace: Duration::from_secs(2),
            stall: Duration::from_secs(60),
            login: Duration::from_secs(12 * 3600),
            drain: Duration::from_secs(30),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_locked() {
        let ServerSettings {
            body_bytes,
            answers,
            answers_of_user,
            keep_alive,
            begin_grace,
            stall,
            drain,
            ..
        } = ServerSettings::default();
        assert_eq!((body_bytes, answers, answers_of_user), (8_388_608, 1024, 512));
        // Clients give up on a silent stream after 300 s.
        assert_eq!([keep_alive, begin_grace, stall, drain].map(|time| time.as_secs()), [10, 2, 60, 30]);
    }
}
