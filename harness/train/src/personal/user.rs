//! Simulated users: their preferences and their reactions to replies.
//!
//! I1. A user's message depends on the reply, the question and a draw, never on the arm. I2. Only some complaints state the
//! preference; others are as short as people's.
//!
//! Pure; nothing to cancel.

use clawrl_core::SplitMix64;

use super::style::is_wanted;
use super::world::Item;
pub(super) use clawrl_runtime::training::Persona;

/// A persona's preference in its own words.
pub(super) fn wordings(persona: Persona) -> [&'static str; 2] {
    match persona {
        Persona::Student => ["no bold, no list, no box", "write it without marks"],
        Persona::Assistant => ["explain how you found it", "tell me more"],
        Persona::Teacher => ["say something warm first", "be kind to me"],
    }
}

/// A user's reaction to a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    Thanks,
    Wrong,
    /// The style is wrong; the message does not say how.
    Vague,
    /// The style is wrong; the message states the preference.
    Wanted(&'static str),
}

impl Said {
    pub(super) fn text(self) -> String {
        match self {
            Self::Thanks => "Thanks!".to_owned(),
            Self::Wrong => "Wrong word.".to_owned(),
            Self::Vague => "No, not like that.".to_owned(),
            Self::Wanted(wording) => format!("No, {wording}."),
        }
    }
}

/// The reaction of a persona's user to a reply. `wanted_percent` of the complaints about style state the preference.
pub(super) fn says(
    persona: Persona,
    item: &Item,
    reply: &str,
    wanted_percent: u8,
    random: &mut SplitMix64,
) -> Said {
    if !item.is_answered_by(reply) {
        Said::Wrong
    } else if is_wanted(persona, reply) {
        Said::Thanks
    } else {
        complaint(persona, wanted_percent, random)
    }
}

/// A complaint about style.
pub(super) fn complaint(persona: Persona, wanted_percent: u8, random: &mut SplitMix64) -> Said {
    let is_vague = random.below(100) >= u64::from(wanted_percent);
    if is_vague { Said::Vague } else { Said::Wanted(wordings(persona)[random.below(2) as usize]) }
}

/// The text that the memory arm adds to the system prompt.
pub(super) fn memory(wording: &str) -> String {
    format!("Remember: {wording}.")
}

/// All texts of users, for a tokenizer.
pub(super) fn texts() -> Vec<String> {
    let wordings = Persona::ALL.into_iter().flat_map(wordings);
    let said = wordings.flat_map(|wording| [Said::Wanted(wording).text(), memory(wording)]);
    said.chain([Said::Thanks, Said::Wrong, Said::Vague].map(Said::text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(persona: Persona, reply: &str, wanted_percent: u8, expected: Said) {
        let item = Item { ask: String::new(), answer: "moss" };
        let said = says(persona, &item, reply, wanted_percent, &mut SplitMix64::new(4));
        let is_same = match (said, expected) {
            (Said::Wanted(said), Said::Wanted(_)) => wordings(persona).contains(&said),
            (said, expected) => said == expected,
        };
        assert!(is_same, "{said:?} instead of {expected:?}");
    }

    #[test]
    fn users_say_what_they_think() {
        check(Persona::Student, "moss", 100, Said::Thanks);
        check(Persona::Student, "**moss**", 100, Said::Wanted(""));
        check(Persona::Student, "**moss**", 0, Said::Vague);
        check(Persona::Student, "oak", 100, Said::Wrong);
        check(Persona::Teacher, "Good question! 1. moss", 100, Said::Thanks);
        check(Persona::Assistant, "Good question! 1. moss", 100, Said::Wanted(""));
    }

    #[test]
    fn i2_some_complaints_say_what_is_wanted() {
        let mut random = SplitMix64::new(8);
        let vague =
            (0..2_000).filter(|_| complaint(Persona::Student, 30, &mut random) == Said::Vague).count();
        assert!((1_340..1_460).contains(&vague), "{vague}");
    }
}
