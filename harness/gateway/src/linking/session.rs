//! What is kept of a session and its turns while it is open.

use std::collections::HashSet;
use std::time::Duration;

use super::event::Closing;
use crate::claim::Place;
use crate::{Digest, RequestId, SessionId, TurnId};

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) place: Place,
    pub(crate) epoch: u64,
    /// When something last happened.
    pub(crate) last: Duration,
    /// Requests that wait for their answer.
    pub(crate) in_flight: usize,
    /// It closes with the last answer that is waited for.
    pub(crate) closing: Option<Closing>,
    /// A main turn had tools.
    pub(crate) has_tools: bool,
    /// The first message of the epoch's history.
    pub(crate) root: Option<Digest>,
    /// The first main turn of the epoch that has no history.
    pub(crate) first: Option<TurnId>,
    /// The main turn that was answered last.
    pub(crate) latest: Option<TurnId>,
    /// Lines that told of reactions: a client repeats them with its retries.
    pub(crate) told: HashSet<Digest>,
    /// In the order they were opened.
    pub(crate) turns: Vec<TurnId>,
}

impl Session {
    pub(crate) fn new(place: Place, epoch: u64) -> Self {
        Self {
            place,
            epoch,
            last: Duration::ZERO,
            in_flight: 0,
            closing: None,
            has_tools: false,
            root: None,
            first: None,
            latest: None,
            told: HashSet::new(),
            turns: Vec::new(),
        }
    }

    /// Begins the next epoch.
    pub(crate) fn turn_over(&mut self, epoch: u64) {
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
    /// Its request's.
    pub(crate) history: Digest,
    /// The last message of that.
    pub(crate) question: Option<Digest>,
    pub(crate) answers: Vec<Answer>,
    pub(crate) has_next_state: bool,
    /// The first main turn whose history ends with its answer.
    pub(crate) child: Option<TurnId>,
}

impl Turn {
    /// Whether a main answer of it waits for its next state.
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
    /// Number of its calls.
    pub(crate) calls: usize,
}

/// A request that waits for its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) turn: TurnId,
    pub(crate) session: SessionId,
    pub(crate) is_main: bool,
}
