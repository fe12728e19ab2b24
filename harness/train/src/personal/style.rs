//! The style of a reply: its form, whether it explains the answer, whether it is warm.
//!
//! I1. A style is determined from the text of a reply alone. I2. The three choices are independent, so a preference about one
//! does not affect the others.
//!
//! Pure; nothing to cancel.

use clawrl_core::SplitMix64;

use super::user::Persona;
use super::world::Item;

/// Openings of warm replies. All have the same first word, so that warmth is one choice.
const WARM: [&str; 2] = ["Good question!", "Good thinking!"];
/// Endings of replies that explain, likewise.
const EXPLANATIONS: [&str; 2] =
    ["I read the list and took the word that fits.", "I looked at each word and kept the right one."];
/// Words of a reply that is long enough for a user who wants explanations. Stands for the published 100 tokens at the tiny
/// policy's scale.
const LONG: usize = 10;

/// Share of first replies that satisfy each preference before learning, as published.
const BASE: f64 = 0.17;
/// The sampling temperature of answers; the shares hold at it.
pub(super) const TEMPERATURE: f32 = 0.7;

/// The markup of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    Bold,
    Boxed,
    Numbered,
}

/// The forms that are not plain.
const MARKED: [Form; 3] = [Form::Bold, Form::Boxed, Form::Numbered];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) form: Form,
    pub(super) explains: bool,
    pub(super) is_warm: bool,
}

impl Style {
    /// Draws a style as the policy writes before learning.
    pub(super) fn usual(random: &mut SplitMix64) -> Self {
        let is_warm = random.unit_f64() < WARM_SHARE.share();
        let is_plain = random.unit_f64() < PLAIN_SHARE.share();
        let form = if is_plain { Form::Plain } else { MARKED[random.below(3) as usize] };
        Self { form, explains: random.unit_f64() < EXPLAINED_SHARE.share(), is_warm }
    }

    /// Draws a style that a persona wants; other choices are as usual.
    pub(super) fn wanted(persona: Persona, random: &mut SplitMix64) -> Self {
        let mut style = Self::usual(random);
        match persona {
            Persona::Student => style.form = Form::Plain,
            Persona::Assistant => style.explains = true,
            Persona::Teacher => style.is_warm = true,
        }
        style
    }

    /// Writes a reply to this question.
    pub(super) fn write(self, item: &Item, random: &mut SplitMix64) -> String {
        let mut pick = |texts: &[&'static str; 2]| texts[random.below(2) as usize];
        let warm = if self.is_warm { format!("{} ", pick(&WARM)) } else { String::new() };
        let answer = item.answer;
        let marked = match self.form {
            Form::Plain => answer.to_owned(),
            Form::Bold => format!("**{answer}**"),
            Form::Boxed => format!("\\boxed{{{answer}}}"),
            Form::Numbered => format!("1. {answer}"),
        };
        let explained = if self.explains { format!(". {}", pick(&EXPLANATIONS)) } else { String::new() };
        warm + &marked + &explained
    }
}

/// One option among others at the same position of a reply; the others are alike.
struct Choice {
    /// The option's share at [`TEMPERATURE`].
    wanted: f64,
    /// Sum, over the others, of their share among themselves at temperature 1, to the power of 1 / temperature.
    others: f64,
}

/// The first word of a reply: warm, or else one of the forms.
const WARM_SHARE: Choice = Choice { wanted: BASE, others: 0.555 };
/// Plain, or else one of three.
const PLAIN_SHARE: Choice = Choice { wanted: BASE, others: 0.6245 };
/// An explanation, or the end.
const EXPLAINED_SHARE: Choice = Choice { wanted: BASE, others: 1.0 };

impl Choice {
    /// The share at temperature 1 that gives the wanted share at [`TEMPERATURE`].
    fn share(&self) -> f64 {
        let odds = (self.wanted / (1.0 - self.wanted) * self.others).powf(f64::from(TEMPERATURE));
        odds / (1.0 + odds)
    }
}

/// Whether a reply is as a persona wants it (I1).
pub(super) fn is_wanted(persona: Persona, reply: &str) -> bool {
    match persona {
        Persona::Student => !reply.contains("**") && !reply.contains("\\boxed") && !has_number(reply),
        Persona::Assistant => reply.split_whitespace().count() >= LONG,
        Persona::Teacher => WARM.iter().any(|warm| reply.contains(warm)),
    }
}

/// Whether the reply, or a line or sentence of it, begins with the number of a list.
fn has_number(reply: &str) -> bool {
    let is_number = |word: &str| {
        let digits = word.strip_suffix('.').unwrap_or_default();
        !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
    };
    reply.split_whitespace().any(is_number)
}

/// All parts of replies, for a tokenizer.
pub(super) fn texts() -> Vec<String> {
    let all = WARM.into_iter().chain(EXPLANATIONS);
    all.map(str::to_owned).chain(["** \\boxed{} 1.".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item() -> Item {
        Item { ask: String::new(), answer: "moss" }
    }

    #[test]
    fn i1_a_style_is_read_off_the_text() {
        let mut random = SplitMix64::new(1);
        for _ in 0..500 {
            let style = Style::usual(&mut random);
            let reply = style.write(&item(), &mut random);
            let read = [
                is_wanted(Persona::Student, &reply),
                is_wanted(Persona::Assistant, &reply),
                is_wanted(Persona::Teacher, &reply),
            ];
            assert_eq!(read, [style.form == Form::Plain, style.explains, style.is_warm], "{reply}");
            assert!(item().is_answered_by(&reply), "{reply}");
        }
    }

    #[test]
    fn i2_what_is_wanted_is_done_and_the_rest_is_usual() {
        let mut random = SplitMix64::new(1);
        let styles: Vec<Style> = (0..2_000).map(|_| Style::wanted(Persona::Teacher, &mut random)).collect();
        assert!(styles.iter().all(|style| style.is_warm));
        let plain = styles.iter().filter(|style| style.form == Form::Plain).count() as f64 / 2_000.0;
        assert!((plain - PLAIN_SHARE.share()).abs() < 0.03, "{plain}");
    }

    /// Samples at the temperature and compares the shares.
    #[test]
    fn each_preference_is_met_by_so_many_at_the_temperature() {
        let sharp = |share: f64| share.powf(1.0 / f64::from(TEMPERATURE));
        let (warm, plain, explained) = (WARM_SHARE.share(), PLAIN_SHARE.share(), EXPLAINED_SHARE.share());
        let forms = [plain, (1.0 - plain) / 3.0, (1.0 - plain) / 3.0, (1.0 - plain) / 3.0];
        let others: f64 = forms.iter().map(|form| sharp((1.0 - warm) * form)).sum();
        let check = |found: f64| assert!((found - BASE).abs() < 0.005, "{found}");
        check(sharp(warm) / (sharp(warm) + others));
        check(sharp(plain) / forms.iter().map(|form| sharp(*form)).sum::<f64>());
        check(sharp(explained) / (sharp(explained) + sharp(1.0 - explained)));
    }
}
