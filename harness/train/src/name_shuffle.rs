//! Data augmentation of demonstrations: interchangeable names trade places.
//!
//! A policy of half a million parameters memorises a few thousand demonstrations before it learns to copy a name from the
//! instruction. If a demonstration has other names each time, only copying helps.
//!
//! I1. A shuffle is a permutation of each list, applied to all actions and observations of a demonstration. I2. A shuffle never
//! makes a held-out instruction. I3. Shuffles are a function of lists, seed and order of calls.

use std::collections::HashMap;

use clawrl_config::is_word_char;
use clawrl_core::{Message, Part, Split, SplitMix64, Trajectory};
use serde_json::Value;

/// Maximum shuffles tried before a demonstration is used unchanged. Four in five instructions are training instructions, so the
/// chance of this is one in two hundred million.
const MAX_TRIES: u32 = 12;

/// Draws shuffles.
pub(super) struct NameShuffle<'a> {
    lists: &'a [Vec<String>],
    random: SplitMix64,
}

impl<'a> NameShuffle<'a> {
    pub(super) fn new(lists: &'a [Vec<String>], seed: u64) -> Self {
        Self { lists, random: SplitMix64::new(seed) }
    }

    /// A demonstration of a task of this family and instruction with shuffled names; unchanged if there are no lists.
    pub(super) fn of(&mut self, demonstration: &Trajectory, family: &str, instruction: &str) -> Trajectory {
        for _ in 0..MAX_TRIES {
            let renaming = self.draw();
            if Split::Train.contains(family, &renaming.text(instruction)) {
                return renaming.trajectory(demonstration);
            }
        }
        demonstration.clone()
    }

    fn draw(&mut self) -> Renaming<'a> {
        let mut others = HashMap::new();
        for list in self.lists {
            let mut shuffled: Vec<&str> = list.iter().map(String::as_str).collect();
            for at in (1..shuffled.len()).rev() {
                shuffled.swap(at, self.random.below(at as u64 + 1) as usize);
            }
            others.extend(list.iter().map(String::as_str).zip(shuffled));
        }
        Renaming { others }
    }
}

/// The replacement of each word.
struct Renaming<'a> {
    others: HashMap<&'a str, &'a str>,
}

impl Renaming<'_> {
    fn text(&self, text: &str) -> String {
        let mut renamed = String::with_capacity(text.len() + text.len() / 4);
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find(|char| !is_word_char(char)).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            renamed.push_str(self.others.get(word).unwrap_or(&word));
            let gap = behind.find(is_word_char).unwrap_or(behind.len());
            renamed.push_str(&behind[..gap]);
            rest = &behind[gap..];
        }
        renamed
    }

    fn trajectory(&self, trajectory: &Trajectory) -> Trajectory {
        let mut renamed = trajectory.clone();
        renamed.prompt.iter_mut().for_each(|message| self.message(message));
        self.parts(&mut renamed.reset.parts);
        for turn in &mut renamed.turns {
            self.message(&mut turn.reply);
            turn.calls.iter_mut().for_each(|call| self.value(&mut call.arguments));
            self.parts(&mut turn.observation.parts);
        }
        renamed
    }

    fn message(&self, message: &mut Message) {
        self.parts(&mut message.parts);
        message.tool_calls.iter_mut().for_each(|call| self.value(&mut call.arguments));
    }

    fn parts(&self, parts: &mut [Part]) {
        for part in parts {
            match part {
                Part::Text { text } => *text = self.text(text),
                Part::Image { .. } => {}
            }
        }
    }

    fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.value(value)),
            Value::Object(values) => values.values_mut().for_each(|value| self.value(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clawrl_core::{Observation, Role, ToolCall, Turn, TurnFlags};
    use serde_json::json;

    use super::*;

    fn lists() -> Vec<Vec<String>> {
        let list = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        vec![list(&["apple", "melon", "olive", "peach"]), list(&["red", "blue"])]
    }

    const FAMILY: &str = "fruit";
    const INSTRUCTION: &str = "Copy apple.txt to red/melon.csv";

    fn demonstration() -> Trajectory {
        let command = "cp apple.txt red/melon.csv";
        let turn = Turn {
            reply: Message::text(Role::Assistant, command),
            calls: vec![ToolCall::new("shell", json!({ "commands": [command], "secs": 3 }))],
            tokens: None,
            usage: None,
            observation: Observation::from_text("cp: cannot stat 'apple.txt'\nin crabapples/blue"),
            process_reward: None,
            flags: TurnFlags::default(),
            policy_time: std::time::Duration::ZERO,
            step_time: std::time::Duration::ZERO,
        };
        Trajectory {
            prompt: vec![Message::text(Role::User, INSTRUCTION)],
            reset: Observation::from_text(""),
            turns: vec![turn],
            cast: None,
        }
    }

    /// The words that one shuffle put in place of apple, melon, red and blue. Panics unless it replaced them everywhere.
    fn renamed(shown: &Trajectory) -> [String; 4] {
        let command = shown.turns[0].reply.joined_text();
        let words: Vec<&str> = command.split(|c: char| !c.is_alphabetic()).collect();
        let &["cp", apple, "txt", red, melon, "csv"] = words.as_slice() else { panic!("{command}") };
        assert_eq!(shown.prompt[0].joined_text(), format!("Copy {apple}.txt to {red}/{melon}.csv"));
        assert_eq!(shown.turns[0].calls[0].arguments, json!({ "commands": [command], "secs": 3 }));
        let observation = shown.turns[0].observation.joined_text();
        // A word that only contains a listed word is not replaced.
        let start = format!("cp: cannot stat '{apple}.txt'\nin crabapples/");
        let blue = observation.strip_prefix(&start).unwrap_or_else(|| panic!("{observation}"));
        [apple, melon, red, blue].map(str::to_owned)
    }

    #[test]
    fn each_showing_has_other_words_of_the_same_lists_and_never_those_of_a_held_out_task() {
        let (lists, demonstration) = (lists(), demonstration());
        let mut shuffle = NameShuffle::new(&lists, 5);
        let mut seen = BTreeSet::new();
        for _ in 0..400 {
            let shown = shuffle.of(&demonstration, FAMILY, INSTRUCTION);
            assert!(Split::Train.contains(FAMILY, &shown.prompt[0].joined_text()));
            seen.insert(renamed(&shown));
        }
        // 4 times 3 pairs of fruit with 2 colours, minus about a fifth that is held out.
        let possible = lists[0].iter().flat_map(|a| lists[0].iter().map(move |b| (a, b)));
        let possible = possible.filter(|(a, b)| a != b).flat_map(|(a, b)| {
            [["red", "blue"], ["blue", "red"]].map(|[x, y]| [a.as_str(), b, x, y].map(str::to_owned))
        });
        let allowed = possible.filter(|[a, b, red, _]| {
            Split::Train.contains(FAMILY, &format!("Copy {a}.txt to {red}/{b}.csv"))
        });
        let allowed: BTreeSet<_> = allowed.collect();
        assert!(allowed.len() < 24, "nothing is held out, so nothing is shown here");
        assert_eq!(seen, allowed);
    }

    #[test]
    fn without_lists_a_demonstration_stays_what_it_is() {
        let shown = NameShuffle::new(&[], 5).of(&demonstration(), FAMILY, INSTRUCTION);
        assert_eq!(shown, demonstration());
    }

    #[test]
    fn the_same_seed_makes_the_same_exchanges() {
        let (lists, demonstration) = (lists(), demonstration());
        let of = |seed| -> Vec<Trajectory> {
            let mut shuffle = NameShuffle::new(&lists, seed);
            (0..8).map(|_| shuffle.of(&demonstration, FAMILY, INSTRUCTION)).collect()
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
