//! Which turns' answers a request can contain, by digests.
//!
//! I1. A whole history is found by one look-up for each of a request's messages, however many turns there are. I2. What
//! would fit several turns fits none. I3. Where several sessions are in one place, only whole histories count: anything
//! less may be in another session by chance.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use super::event::Match;
use crate::request::Step;
use crate::{ChatRequest, Digest, Role, TurnId};

/// An answer of a turn: the place of it among those of the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnswerPlace {
    pub(crate) turn: TurnId,
    pub(crate) answer: usize,
}

/// What is known of the turns of one place.
#[derive(Debug)]
pub(crate) struct Contents {
    /// All turns here are of one session (I3).
    is_one_session: bool,
    /// Turns by the history that their requests end with.
    histories: HashMap<Digest, TurnId>,
    /// Answers by the history that ends with them.
    ends: HashMap<Digest, AnswerPlace>,
    /// Answers by the ids of their calls.
    calls: HashMap<String, Owner>,
    /// Answers by themselves and what they answer.
    exchanges: HashMap<Digest, Owner>,
}

#[derive(Debug, Clone, Copy)]
enum Owner {
    One(AnswerPlace),
    Several,
}

/// An answer, and where it is in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Contained {
    pub(crate) place: AnswerPlace,
    /// Among the steps of the request.
    pub(crate) step: usize,
    pub(crate) by: Match,
}

/// How a request stands to the turns that are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// It is this turn's request again.
    pub(crate) repeated: Option<TurnId>,
    /// The last answer in it.
    pub(crate) contained: Option<Contained>,
    /// A turn whose request it goes on behind that, as if there had been no answer.
    pub(crate) continued: Option<TurnId>,
}

/// What is kept of an answer.
pub(crate) struct AnswerKeys<'a> {
    /// Of the turn's request.
    pub(crate) history: Digest,
    /// Of the last message of that.
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

    /// Forgets a turn of a place with several sessions, given its history and its answers.
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

    /// `whole`: turns that are in the request with their whole history. What looks like one of their answers elsewhere is
    /// somebody else's.
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
