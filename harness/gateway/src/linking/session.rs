//! State of an open session and its turns.

use std::collections::HashSet;
use std::time::Duration;

use super::event::Closing;
use crate::claim::SessionKey;
use crate::{Digest, RequestId, SessionId, TurnId};

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) key: SessionKey,
    pub(crate) epoch: u64,
    /// Time of the last event.
    pub(crate) last: Duration,
    /// Requests without an answer yet.
    pub(crate) in_flight: usize,
    /// Set if the session closes after its last pending answer.
    pub(crate) closing: Option<Closing>,
    /// Whether a main turn had tools.
    pub(crate) has_tools: bool,
    /// First message of the epoch's history.
    pub(crate) root: Option<Digest>,
    /// First main turn of the epoch without a history.
    pub(crate) first: Option<TurnId>,
    /// The main turn that was answered last.
    pub(crate) latest: Option<TurnId>,
    /// Lines with reactions: a client repeats them in retries.
    pub(crate) reported: HashSet<Digest>,
    /// In the order of opening.
    pub(crate) turns: Vec<TurnId>,
}

impl Session {
    pub(crate) fn new(key: SessionKey, epoch: u64) -> Self {
        Self {
            key,
            epoch,
            last: Duration::ZERO,
            in_flight: 0,
            closing: None,
            has_tools: false,
            root: None,
            first: None,
            latest: None,
            reported: HashSet::new(),
            turns: Vec::new(),
        }
    }

    /// Starts the next epoch.
    pub(crate) fn start_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.root = None;
        self.first = None;
    }

    pub(crate) fn is_idle(&self, at: Duration, idle: Duration) -> bool {
        self.in_flight == 0 && at.saturating_sub(self.last) >= idle
    }
}

#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) session: SessionId,
    /// Digest of the request's history.
    pub(crate) history: Digest,
    /// Last message of the history.
    pub(crate) question: Option<Digest>,
    pub(crate) answers: Vec<Answer>,
    pub(crate) has_next_state: bool,
    /// First main turn whose history ends with this turn's answer.
    pub(crate) child: Option<TurnId>,
}

impl Turn {
    /// Whether a main answer has no next state yet.
    pub(crate) fn is_open(&self) -> bool {
        !self.has_next_state && self.answers.iter().any(|answer| answer.is_main)
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) request: RequestId,
    pub(crate) choice: usize,
    pub(crate) is_main: bool,
    pub(crate) digest: Digest,
    /// Number of calls.
    pub(crate) calls: usize,
}

/// A request without an answer yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) turn: TurnId,
    pub(crate) session: SessionId,
    pub(crate) is_main: bool,
}
