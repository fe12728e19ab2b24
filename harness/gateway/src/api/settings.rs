//! Limits and times of the server.

use std::time::Duration;

/// What may be set about the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// Names of this server beside those of the loopback, as clients write them in `Host`: `host`, or `host:port`.
    pub hosts: Vec<String>,
    /// Most bytes of a body.
    pub body_bytes: usize,
    /// How long a body may take.
    pub body_time: Duration,
    /// How long the head of a request may take, and a connection rest between two requests.
    pub head_time: Duration,
    /// Most connections; more wait to be accepted.
    pub connections: usize,
    /// Most answers at once; more are told to come again.
    pub answers: usize,
    /// The same for one user.
    pub answers_of_user: usize,
    /// A stream in which nothing else was sent for so long has a comment.
    pub keep_alive: Duration,
    /// An answer that has not begun after so long begins as a stream that waits; until then an error has a status of its own.
    pub begin_grace: Duration,
    /// A client that does not take a piece of its answer for so long is given up.
    pub stall: Duration,
    /// How long a login to the pages lasts.
    pub login: Duration,
    /// How long answers may go on once the server ends.
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
        // A client gives a silent stream up after 300 s.
        assert_eq!([keep_alive, begin_grace, stall, drain].map(|time| time.as_secs()), [10, 2, 60, 30]);
    }
}
