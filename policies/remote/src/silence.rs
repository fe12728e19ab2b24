//! Timeouts from a request to the end of its response.
//!
//! Data is a part of the reply or a keep-alive: stream comments and pings, empty events, white space, the beginning of an
//! event. A keep-alive shows that something responds, possibly a proxy in front of a hanging model, so it extends a wait
//! only up to a limit.
//!
//! I1. Before the reply begins, the wait ends [`RemoteTimeouts::first_byte`] after the last data, and at the latest when
//! the request is given up. I2. A reply that has begun stalls [`RemoteTimeouts::stall`] after the last data. After the time
//! to give up, the reply counts as arriving only while its parts come within [`BREATH`] of each other.
//!
//! Pure: the time is an argument.

use std::time::Duration;

use clawrl_core::RemoteTimeouts;
use tokio::time::Instant;

use crate::trouble::Trouble;

/// Maximum interval between parts of a reply that is arriving.
const BREATH: Duration = Duration::from_secs(2);

/// Times of a server's data.
#[derive(Debug)]
pub(crate) struct Silence {
    patience: RemoteTimeouts,
    /// Shortly before the deadline.
    give_up: Instant,
    asked: Instant,
    /// Time of the last data; at first, of the request.
    heard: Instant,
    /// Time of the last part of the reply.
    said: Option<Instant>,
}

impl Silence {
    /// Starts with a request that is sent now.
    pub(crate) fn new(patience: RemoteTimeouts, give_up: Instant, now: Instant) -> Self {
        Self { patience, give_up, asked: now, heard: now, said: None }
    }

    /// Records data, as a keep-alive.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Records a part of the reply.
    pub(crate) fn said(&mut self, now: Instant) {
        self.said = Some(now);
    }

    /// End of the wait, if no more data arrives.
    pub(crate) fn end(&self) -> Instant {
        match self.said {
            None => (self.heard + self.patience.first_byte).min(self.give_up),
            // A server that still sends when the time is up is slow; a silent one is gone.
            Some(said) => (self.heard + self.patience.stall).min(self.give_up.max(said + BREATH)),
        }
    }

    /// The error at the end of the wait.
    pub(crate) fn trouble(&self, now: Instant) -> Trouble {
        let since = |then: Instant| now.duration_since(then).as_secs_f64();
        match self.said {
            Some(said) => Trouble::later(
                "stream-stalled",
                format!("the answer has stood still for {:.1} s", since(said)),
            ),
            None if self.heard > self.asked => {
                let message =
                    format!("the server has sent keep-alives and no reply for {:.1} s", since(self.asked));
                Trouble::later("server-silent", message)
            }
            None => {
                let message = format!("the server has not answered within {:.1} s", since(self.asked));
                Trouble::later("server-silent", message)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Data that arrives at a given second.
    #[derive(Clone, Copy)]
    enum Comes {
        Ping(u64),
        Part(u64),
    }
    use Comes::{Part, Ping};

    const PATIENCE: RemoteTimeouts = RemoteTimeouts {
        connect: Duration::from_secs(1),
        first_byte: Duration::from_secs(60),
        stall: Duration::from_secs(30),
    };

    /// A request that is given up after this many seconds ends at this one, with this trouble.
    fn check(give_up: u64, coming: &[Comes], end: u64, code: &str) {
        let start = Instant::now();
        let at = |secs: u64| start + Duration::from_secs(secs);
        let mut silence = Silence::new(PATIENCE, at(give_up), start);
        for come in coming {
            let (Ping(secs) | Part(secs)) = *come;
            assert!(at(secs) < silence.end(), "over before second {secs}");
            silence.heard(at(secs));
            if let Part(_) = come {
                silence.said(at(secs));
            }
        }
        assert_eq!((silence.end() - start).as_secs(), end);
        assert_eq!(silence.trouble(silence.end()).code, code);
    }

    #[test]
    fn i1_keep_alives_prolong_the_wait_up_to_the_time_to_give_up() {
        check(1_000, &[], 60, "server-silent");
        check(40, &[], 40, "server-silent");
        check(1_000, &[Ping(50)], 110, "server-silent");
        check(1_000, &[Ping(50), Ping(100), Ping(150)], 210, "server-silent");
        check(100, &[Ping(50), Ping(99)], 100, "server-silent");
    }

    #[test]
    fn i2_keep_alives_are_no_part_of_a_reply() {
        check(1_000, &[Part(10)], 40, "stream-stalled");
        check(1_000, &[Ping(50), Part(100), Ping(120)], 150, "stream-stalled");
        check(100, &[Part(50), Part(75), Ping(99)], 100, "stream-stalled");
        // It is being given when the time is up, and then it is not.
        check(100, &[Ping(50), Part(99)], 101, "stream-stalled");
        check(100, &[Ping(50), Part(99), Ping(100)], 101, "stream-stalled");
        check(100, &[Ping(50), Part(99), Part(100), Part(101), Part(102)], 104, "stream-stalled");
    }

    #[test]
    fn what_is_told_is_what_was_heard() {
        let start = Instant::now();
        let mut silence = Silence::new(PATIENCE, start + PATIENCE.first_byte, start);
        let mut check = |heard: fn(&mut Silence, Instant), expected: &str| {
            heard(&mut silence, start + Duration::from_secs(2));
            assert_eq!(silence.trouble(start + Duration::from_secs(5)).message, expected);
        };
        check(|_, _| {}, "the server has not answered within 5.0 s");
        check(Silence::heard, "the server has sent keep-alives and no reply for 5.0 s");
        check(Silence::said, "the answer has stood still for 3.0 s");
    }
}
