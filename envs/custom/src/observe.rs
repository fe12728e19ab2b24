//! Converts an environment's text to the policy's observation and the record's facts.

use clawrl_core::{Observation, fit_texts};

use crate::message::TextAnswer;

/// At most `budget` characters of the text; the record has all of it.
pub(crate) fn observation(answer: TextAnswer, budget: usize) -> Observation {
    let TextAnswer { text, full_text } = answer;
    match fit_texts(&[&text], budget).pop().flatten() {
        Some(cut) => Observation { full_text: full_text.or(Some(text)), ..Observation::from_text(cut) },
        None => {
            Observation { full_text: full_text.filter(|full| *full != text), ..Observation::from_text(text) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, full: Option<&str>, shown: &str, kept: Option<&str>) {
        let answer = TextAnswer { text: text.to_owned(), full_text: full.map(str::to_owned) };
        let observation = observation(answer, 5);
        assert_eq!((observation.joined_text().as_str(), observation.full_text.as_deref()), (shown, kept));
    }

    #[test]
    fn cut_observation_keeps_full_text() {
        check("short", None, "short", None);
        check("longer", None, "longe", Some("longer"));
        check("short", Some("all of it"), "short", Some("all of it"));
        check("longer", Some("all of it"), "longe", Some("all of it"));
        check("short", Some("short"), "short", None);
    }
}
