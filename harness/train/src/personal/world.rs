//! The questions: each has one answer, a word of a list, which can be verified.
//!
//! I1. Whether a question is held out depends only on its text, so no training with any seed sees held-out questions.
//!
//! Pure; nothing to cancel.

use clawrl_core::{SplitMix64, stable_hash};

/// Words of lists. They appear in no other text.
pub(super) const WORDS: [&str; 48] = [
    "acorn", "anchor", "apple", "arrow", "barn", "basket", "bell", "birch", "boat", "bridge", "button",
    "camel", "candle", "castle", "cedar", "cherry", "cliff", "clover", "coin", "comet", "copper", "coral",
    "crown", "daisy", "drum", "eagle", "falcon", "fern", "flute", "fox", "garden", "grape", "hammer",
    "hazel", "heron", "honey", "island", "jacket", "kettle", "lemon", "maple", "moss", "oak", "otter",
    "peach", "pear", "violet", "willow",
];
/// Number of words of one list.
const LISTED: usize = 3;
/// One question in so many is held out.
const HELD_OUT: u64 = 5;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    /// Text of the question.
    pub(super) ask: String,
    pub(super) answer: &'static str,
}

/// A part of the questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Questions of users and of the policy's training data.
    Train,
    /// Questions asked only at the end.
    HeldOut,
}

impl Item {
    /// Draws the next question of a part.
    pub(super) fn draw(random: &mut SplitMix64, part: Part) -> Self {
        loop {
            let item = Self::any(random);
            if item.part() == part {
                return item;
            }
        }
    }

    fn any(random: &mut SplitMix64) -> Self {
        let mut words: Vec<&'static str> = Vec::with_capacity(LISTED);
        while words.len() < LISTED {
            let word = WORDS[random.below(WORDS.len() as u64) as usize];
            if !words.contains(&word) {
                words.push(word);
            }
        }
        let (question, at) = match random.below(3) {
            0 => ("First".to_owned(), 0),
            1 => ("Last".to_owned(), LISTED - 1),
            _ => {
                let before = random.below(LISTED as u64 - 1) as usize;
                (format!("After {}", words[before]), before + 1)
            }
        };
        Self { ask: format!("{question}: {}", words.join(" ")), answer: words[at] }
    }

    fn part(&self) -> Part {
        if stable_hash(self.ask.as_bytes()).is_multiple_of(HELD_OUT) { Part::HeldOut } else { Part::Train }
    }

    /// Whether a reply gives the answer: its first list word counts.
    pub(super) fn is_answered_by(&self, reply: &str) -> bool {
        let mut words = reply.split(|c: char| !c.is_alphabetic());
        words.find(|word| WORDS.contains(word)) == Some(self.answer)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn i1_parts_have_nothing_in_common() {
        let draw = |part| -> BTreeSet<String> {
            let mut random = SplitMix64::new(3);
            (0..2_000).map(|_| Item::draw(&mut random, part).ask).collect()
        };
        let (train, held_out) = (draw(Part::Train), draw(Part::HeldOut));
        assert!(train.is_disjoint(&held_out));
        assert!(train.len() > 1_900 && held_out.len() > 1_900, "hardly any comes twice");
    }

    #[test]
    fn answers_are_checked_in_any_style() {
        let item = Item { ask: "After fern: pear fern moss".to_owned(), answer: "moss" };
        let check = |reply: &str, expected| assert_eq!(item.is_answered_by(reply), expected, "{reply}");
        check("moss", true);
        check("**moss**. I looked.", true);
        check("Good question! 1. moss", true);
        check("\\boxed{moss}", true);
        check("fern", false);
        check("fern, or moss", false);
        check("mosses", false);
        check("", false);
    }

    #[test]
    fn questions_have_their_answers() {
        let mut random = SplitMix64::new(9);
        for _ in 0..200 {
            let Item { ask, answer } = Item::draw(&mut random, Part::Train);
            let (question, listed) = ask.split_once(": ").unwrap();
            let listed: Vec<&str> = listed.split(' ').collect();
            let expected = match question.strip_prefix("After ") {
                Some(before) => listed[1 + listed.iter().position(|word| *word == before).unwrap()],
                None if question == "First" => listed[0],
                None => listed[2],
            };
            assert_eq!(answer, expected, "{ask}");
        }
    }
}
