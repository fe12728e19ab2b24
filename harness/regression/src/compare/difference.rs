//! Finds the first difference between two attempts at one task.
//!
//! D1. The result is the first differing text in order: the prompt, then the action and the observation of each turn. D2. Text
//! beside calls is not part of an action: equal calls are equal actions.
//!
//! Pure; nothing to cancel.

use std::fmt;

use clawrl_gates::SideName;
use serde::Serialize;

use super::story::Story;

/// Characters of a text that a comparison keeps.
const MAX_TEXT: usize = 2_000;

/// The first text that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The kind of text.
    pub place: DifferencePlace,
    /// Text of the baseline, the first 2,000 characters; empty if it has none.
    pub baseline: String,
    /// Text of the candidate.
    pub candidate: String,
}

/// Kind of text of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferencePlace {
    /// The prompt.
    Asked,
    /// The action of a turn, counted from 1.
    Action {
        /// The turn.
        turn: u32,
    },
    /// The observation after the action.
    Observation {
        /// The turn.
        turn: u32,
    },
    /// One attempt continued after the other had ended.
    Length {
        /// The first turn that only one has.
        turn: u32,
        /// The side that continued.
        goes_on: SideName,
    },
    /// All texts are the same.
    Nowhere,
}

impl DifferencePlace {
    /// The turn, counted from 1.
    pub(crate) fn turn(self) -> Option<u32> {
        match self {
            Self::Action { turn } | Self::Observation { turn } | Self::Length { turn, .. } => Some(turn),
            Self::Asked | Self::Nowhere => None,
        }
    }
}

impl fmt::Display for DifferencePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("their prompts differ"),
            Self::Action { turn } => write!(f, "they first differ in the action of turn {turn}"),
            Self::Observation { turn } => {
                write!(f, "they first differ in the observation of turn {turn}, after the same action")
            }
            Self::Length { turn, goes_on } => {
                write!(f, "they are equal up to turn {turn}, which only the {goes_on} has")
            }
            Self::Nowhere => f.write_str("they are equal in all turns"),
        }
    }
}

impl Difference {
    /// Between two attempts.
    pub(crate) fn between(baseline: &Story, candidate: &Story) -> Self {
        let at = |place, baseline: &str, candidate: &str| Self {
            place,
            baseline: baseline.chars().take(MAX_TEXT).collect(),
            candidate: candidate.chars().take(MAX_TEXT).collect(),
        };
        if baseline.asked != candidate.asked {
            return at(DifferencePlace::Asked, &baseline.asked, &candidate.asked);
        }
        for ((before, after), turn) in baseline.turns.iter().zip(&candidate.turns).zip(1..) {
            if before.did != after.did {
                return at(DifferencePlace::Action { turn }, &before.did, &after.did);
            }
            if before.saw != after.saw {
                return at(DifferencePlace::Observation { turn }, &before.saw, &after.saw);
            }
        }
        let common = baseline.turns.len().min(candidate.turns.len());
        let turn = u32::try_from(common + 1).unwrap_or(u32::MAX);
        match (baseline.turns.get(common), candidate.turns.get(common)) {
            (Some(more), _) => {
                at(DifferencePlace::Length { turn, goes_on: SideName::Baseline }, &more.did, "")
            }
            (None, Some(more)) => {
                at(DifferencePlace::Length { turn, goes_on: SideName::Candidate }, "", &more.did)
            }
            (None, None) => at(DifferencePlace::Nowhere, "", ""),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::compare::story::TurnTexts;

    fn story(asked: &str, turns: &[(&str, &str)]) -> Story {
        let turn = |(did, saw): &(&str, &str)| TurnTexts { did: (*did).to_owned(), saw: (*saw).to_owned() };
        Story { asked: asked.to_owned(), turns: turns.iter().map(turn).collect(), ..Story::default() }
    }

    #[test]
    fn d1_the_first_text_that_differs() {
        let baseline = story("do", &[("ls", "a"), ("cat a", "x"), ("submit", "")]);
        let check = |asked: &str, turns: &[(&str, &str)], place, texts: [&str; 2]| {
            let found = Difference::between(&baseline, &story(asked, turns));
            assert_eq!(
                (found.place, found.baseline.as_str(), found.candidate.as_str()),
                (place, texts[0], texts[1])
            );
        };
        check("do it", &[], DifferencePlace::Asked, ["do", "do it"]);
        check("do", &[("ls", "a"), ("cat b", "x")], DifferencePlace::Action { turn: 2 }, ["cat a", "cat b"]);
        check("do", &[("ls", "b"), ("cat b", "x")], DifferencePlace::Observation { turn: 1 }, ["a", "b"]);
        let goes_on = SideName::Baseline;
        check("do", &[("ls", "a")], DifferencePlace::Length { turn: 2, goes_on }, ["cat a", ""]);
        let goes_on = SideName::Candidate;
        let longer = [("ls", "a"), ("cat a", "x"), ("submit", ""), ("more", "")];
        check("do", &longer, DifferencePlace::Length { turn: 4, goes_on }, ["", "more"]);
        check("do", &longer[..3], DifferencePlace::Nowhere, ["", ""]);
    }

    proptest! {
        /// Texts before the place are equal, and the texts at it differ.
        #[test]
        fn d1_nothing_differs_before(
            left in prop::collection::vec(("[ab]", "[ab]"), 0..5),
            right in prop::collection::vec(("[ab]", "[ab]"), 0..5),
        ) {
            let of = |turns: &[(String, String)]| {
                let turns: Vec<(&str, &str)> = turns.iter().map(|(did, saw)| (did.as_str(), saw.as_str())).collect();
                story("do", &turns)
            };
            let (left, right) = (of(&left), of(&right));
            let found = Difference::between(&left, &right);
            match found.place.turn() {
                Some(turn) => {
                    let before = turn as usize - 1;
                    prop_assert_eq!(&left.turns[..before], &right.turns[..before]);
                    prop_assert_ne!(left.turns.get(before), right.turns.get(before));
                    prop_assert_ne!(found.baseline, found.candidate);
                }
                None => prop_assert_eq!(left, right),
            }
        }
    }
}
