//! Look-up of the answers that a request contains, by digest.
//!
//! I1. A whole history is found by one look-up for each message of a request, however many turns there are. I2. A match of several turns
//! counts as none. I3. If several sessions share an index, only whole histories match: a shorter match could belong to another session.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use super::event::Match;
use clawrl_core::Role;

use crate::request::Step;
use crate::{ChatRequest, Digest, TurnId};

/// An answer: its turn, and its index among the turn's answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnswerPlace {
    pub(crate) turn: TurnId,
    pub(crate) answer: usize,
}

/// The known turns of one index.
#[derive(Debug)]
pub(crate) struct Contents {
    /// All turns are of one session (I3).
    is_one_session: bool,
    /// Turns by the history of their requests.
    histories: HashMap<Digest, TurnId>,
    /// Answers by the history that ends with them.
    ends: HashMap<Digest, AnswerPlace>,
    /// Answers by their call ids.
    calls: HashMap<String, Owner>,
    /// Answers by question and answer.
    exchanges: HashMap<Digest, Owner>,
}

#[derive(Debug, Clone, Copy)]
enum Owner {
    One(AnswerPlace),
    Several,
}

/// An answer, and its position in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Contained {
    pub(crate) place: AnswerPlace,
    /// Index among the request's steps.
    pub(crate) step: usize,
    pub(crate) by: Match,
}

/// How a request relates to the known turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The turn whose request it repeats.
    pub(crate) repeated: Option<TurnId>,
    /// The last answer that it contains.
    pub(crate) contained: Option<Contained>,
    /// A turn without an answer whose request it continues.
    pub(crate) continued: Option<TurnId>,
}

/// Keys under which an answer is found.
pub(crate) struct AnswerKeys<'a> {
    /// History of the turn's request.
    pub(crate) history: Digest,
    /// Last message of that history.
    pub(crate) question: Option<Digest>,
    pub(crate) answer: Digest,
    pub(crate) call_ids: &'a [String],
}

impl Contents {
    pub(crate) fn new(is_one_session: bool) -> Self {
        Self {
            is_one_session,
            histories: HashMap::new(),
            ends: HashMap::new(),
            calls: HashMap::new(),
            exchanges: HashMap::new(),
        }
    }

    pub(crate) fn add_turn(&mut self, history: Digest, turn: TurnId) {
        self.histories.insert(history, turn);
    }

    pub(crate) fn add_answer(&mut self, keys: &AnswerKeys<'_>, place: AnswerPlace) {
        self.ends.entry(keys.history.then(keys.answer)).or_insert(place);
        if !self.is_one_session {
            return;
        }
        if let Some(question) = keys.question {
            add(&mut self.exchanges, Digest::exchange(question, keys.answer), place);
        }
        for id in keys.call_ids.iter().filter(|id| !id.is_empty()) {
            add(&mut self.calls, id.clone(), place);
        }
    }

    /// Removes a turn of an index with several sessions, given its history and its answers.
    pub(crate) fn remove(&mut self, history: Digest, answers: impl Iterator<Item = Digest>) {
        self.histories.remove(&history);
        for answer in answers {
            self.ends.remove(&history.then(answer));
        }
    }

    pub(crate) fn find(&self, body: &ChatRequest) -> Found {
        let steps = body.steps();
        let whole = steps.iter().filter_map(|step| Some(self.ends.get(&step.context)?.turn)).collect();
        let contained = (0..steps.len()).rev().find_map(|step| {
            let is_answer = steps[step].role == Role::Assistant;
            let (place, by) = is_answer.then(|| self.answer_at(body, step, &whole))??;
            Some(Contained { place, step, by })
        });
        let behind = contained.map_or(0, |contained| contained.step + 1);
        let inner = behind..steps.len().saturating_sub(1).max(behind);
        let continued = inner.rev().find_map(|step| {
            let is_unanswered = steps[step + 1].role != Role::Assistant;
            is_unanswered.then(|| self.histories.get(&steps[step].context).copied())?
        });
        Found { repeated: self.histories.get(&body.context()).copied(), contained, continued }
    }

    /// `whole`: turns whose whole history is in the request. Another match of their answers belongs to another turn.
    fn answer_at(
        &self,
        body: &ChatRequest,
        step: usize,
        whole: &HashSet<TurnId>,
    ) -> Option<(AnswerPlace, Match)> {
        let steps = body.steps();
        let Step { index, digest, context, .. } = steps[step];
        if let Some(place) = self.ends.get(&context) {
            return Some((*place, Match::History));
        }
        let is_elsewhere = |place: &AnswerPlace| !whole.contains(&place.turn);
        let ids = body.messages()[index].call_ids.iter();
        if let Some(place) = ids.filter_map(|id| one(&self.calls, id)).find(is_elsewhere) {
            return Some((place, Match::CallIds));
        }
        let question = step.checked_sub(1).map(|before| steps[before].digest)?;
        let place = one(&self.exchanges, &Digest::exchange(question, digest));
        Some((place.filter(is_elsewhere)?, Match::Exchange))
    }
}

fn add<K: Eq + Hash>(owners: &mut HashMap<K, Owner>, key: K, place: AnswerPlace) {
    let owner = owners.entry(key).or_insert(Owner::One(place));
    if let Owner::One(known) = owner
        && known.turn != place.turn
    {
        *owner = Owner::Several;
    }
}

fn one<K: Eq + Hash + Borrow<Q>, Q: Eq + Hash + ?Sized>(
    owners: &HashMap<K, Owner>,
    key: &Q,
) -> Option<AnswerPlace> {
    match owners.get(key)? {
        Owner::One(place) => Some(*place),
        Owner::Several => None,
    }
}
