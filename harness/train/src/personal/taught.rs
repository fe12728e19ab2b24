//! Training data of the policy: conversations, and the reply to imitate in each.
//!
//! I1. The reply follows a stated preference, in the system prompt, in a complaint or in a hint after the user's message. Without
//! a stated preference, replies have the usual style. I2. Held-out questions do not appear. I3. Only the last reply is imitated:
//! earlier replies are bad on purpose.
//!
//! Pure; nothing to cancel.

use clawrl_core::SplitMix64;
use serde_json::{Value, json};

use super::super::hints::HINT_MARK;
use super::style::{Style, is_wanted};
use super::user::{Persona, Said, complaint, memory, wordings};
use super::world::{Item, Part};

/// Share of conversations with a memory, and with a hint, percent.
const REMEMBERED: u64 = 16;
const HINTED: u64 = 24;
/// Shares with one earlier reply, and with two, percent.
const FOLLOWED: [u64; 2] = [22, 10];
/// Share of complaints that state the preference, percent.
const SAID: u8 = 40;
/// Share of hints that state the preference, and of earlier replies that are wrong, percent.
const TELLING: u8 = 80;
const WRONG: u64 = 10;

/// A conversation and the next reply.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SftExample {
    /// Messages in the form of a request.
    pub(super) messages: Vec<Value>,
    pub(super) reply: String,
}

/// Draws the next example.
pub(super) fn taught(random: &mut SplitMix64) -> SftExample {
    let persona = Persona::ALL[random.below(3) as usize];
    let item = Item::draw(random, Part::Train);
    let (mut messages, mut is_told) = (Vec::new(), false);
    if random.below(100) < REMEMBERED {
        let wording = wordings(persona)[random.below(2) as usize];
        messages.push(message("system", &memory(wording)));
        is_told = true;
    }
    messages.push(message("user", &item.ask));
    for _ in 0..earlier(random) {
        let (reply, said) = bad(persona, &item, random);
        is_told |= matches!(said, Said::Wanted(_));
        messages.push(message("assistant", &reply));
        messages.push(message("user", &said.text()));
    }
    if random.below(100) < HINTED {
        let said = complaint(persona, TELLING, random);
        is_told |= matches!(said, Said::Wanted(_));
        if let Some(last) = messages.last_mut() {
            let text = last["content"].as_str().unwrap_or_default().to_owned();
            *last = message("user", &format!("{text}{HINT_MARK}{}", said.text()));
        }
    }
    let style = if is_told { Style::wanted(persona, random) } else { Style::usual(random) };
    SftExample { messages, reply: style.write(&item, random) }
}

/// A message of a request.
pub(super) fn message(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

/// Draws the number of replies before the imitated one.
fn earlier(random: &mut SplitMix64) -> u32 {
    let drawn = random.below(100);
    u32::from(drawn < FOLLOWED[0] + FOLLOWED[1]) + u32::from(drawn < FOLLOWED[1])
}

/// A bad reply and the user's complaint about it.
fn bad(persona: Persona, item: &Item, random: &mut SplitMix64) -> (String, Said) {
    if random.below(100) < WRONG {
        let mut other = Item::draw(random, Part::Train);
        while other.answer == item.answer {
            other = Item::draw(random, Part::Train);
        }
        return (Style::usual(random).write(&other, random), Said::Wrong);
    }
    loop {
        let reply = Style::usual(random).write(item, random);
        if !is_wanted(persona, &reply) {
            return (reply, complaint(persona, SAID, random));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i1_whoever_says_what_is_wanted_is_heeded() {
        let mut random = SplitMix64::new(5);
        let (mut told, mut all) = (0, 0);
        for _ in 0..3_000 {
            let SftExample { messages, reply } = taught(&mut random);
            let text = serde_json::to_string(&messages).unwrap();
            let by = Persona::ALL
                .into_iter()
                .find(|persona| wordings(*persona).iter().any(|said| text.contains(said)));
            assert!(by.is_none_or(|persona| is_wanted(persona, &reply)), "{text} {reply}");
            told += u32::from(by.is_some());
            all += u32::from(messages.len() == 1 && by.is_none());
        }
        assert!((1_000..2_000).contains(&told) && (1_000..2_000).contains(&all), "{told} {all}");
    }

    #[test]
    fn i3_earlier_replies_are_bad() {
        let mut random = SplitMix64::new(6);
        for _ in 0..500 {
            let SftExample { messages, .. } = taught(&mut random);
            let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
            assert_eq!(roles.last(), Some(&"user"));
            assert!(roles.len() <= 6, "{roles:?}");
        }
    }
}
