//! Token usage of a reply: the server's figures if plausible, otherwise an estimate, and the cost.
//!
//! I1. An impossible figure is noted and replaced; a possible one is used and labelled as the server's. I2. Cost is
//! computed in integers: the price of each kind of token times its number, summed, rounded down once.
//!
//! Impossible figures: more output than allowed; fewer tokens than the bytes of the text divided by [`LONGEST_TOKEN`]; more
//! input than the bytes of the request plus an allowance for a template and hidden instructions; more cached input than
//! input. Bytes of images do not determine their tokens and are left out; each image may have up to [`LARGEST_IMAGE`]
//! tokens.
//!
//! Units: tokens; prices in millionths of a US dollar for a million tokens, which are millionths of a millionth for
//! one; cost in billionths.

use clawrl_core::{Prices, Usage, UsageSource};

use crate::reply::{Figure, Reported};

/// Bytes of the longest token: some vocabularies have runs of spaces of this length.
const LONGEST_TOKEN: u64 = 512;

/// Tokens that servers add to a prompt unseen: chat templates, descriptions of tools, safety instructions.
const HIDDEN_INPUT: u64 = 16_384;

/// Bytes of a token in an estimate, as in usual text.
const USUAL_TOKEN: u64 = 4;

/// Tokens of a usual image in an estimate; servers count between 85 and some thousands.
const USUAL_IMAGE: u64 = 1_000;

/// Maximum number of tokens of one image.
const LARGEST_IMAGE: u64 = 65_536;

/// Facts about a reply that do not depend on the server's figures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    /// Bytes of the request's body, without its images.
    pub(crate) text_bytes: usize,
    /// Number of images.
    pub(crate) images: u32,
    /// Bytes that the model wrote.
    pub(crate) written_bytes: usize,
    /// Maximum number of tokens that the model may write.
    pub(crate) max_tokens: u32,
    /// Number of tokens, if the server reported them one by one.
    pub(crate) exact_output: Option<u64>,
}

/// Checks the server's figures. `notes` are the notes of the reply so far.
pub(crate) fn settle(reported: &Reported, known: &Known, prices: Option<&Prices>, notes: &[&str]) -> Usage {
    let mut notes: Vec<String> = notes.iter().map(|note| (*note).to_owned()).collect();
    let figures = match possible(reported, known) {
        Ok(figures) => Ok(figures),
        Err(note) => {
            notes.push(note.to_owned());
            Err(estimate(known))
        }
    };
    let source = if figures.is_ok() { UsageSource::Reported } else { UsageSource::Estimated };
    let (Ok(Figures { input, cached, output }) | Err(Figures { input, cached, output })) = figures;
    let cost_nano_usd = prices.map(|prices| cost(prices, input, cached, output));
    Usage {
        replies: 1,
        source,
        input_tokens: input,
        cached_tokens: cached,
        output_tokens: output,
        cost_nano_usd,
        retries: 0,
        notes,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Figures {
    input: u64,
    cached: u64,
    output: u64,
}

fn possible(reported: &Reported, known: &Known) -> Result<Figures, &'static str> {
    const IMPOSSIBLE: &str = "usage-impossible";
    let Reported { input, cached, output } = *reported;
    let (input, output) = match (input, output) {
        (Figure::Count(input), Figure::Count(output)) => (input, output),
        (Figure::Nonsense, _) | (_, Figure::Nonsense) => return Err(IMPOSSIBLE),
        _ => return Err("usage-missing"),
    };
    let cached = match cached {
        Figure::Count(cached) => cached,
        Figure::Missing => 0,
        Figure::Nonsense => return Err(IMPOSSIBLE),
    };
    let (text_bytes, written_bytes) = (known.text_bytes as u64, known.written_bytes as u64);
    let most_input = text_bytes + HIDDEN_INPUT + u64::from(known.images) * LARGEST_IMAGE;
    let input_fits = input >= text_bytes / LONGEST_TOKEN && input <= most_input && input > 0;
    let output_fits =
        output >= written_bytes.div_ceil(LONGEST_TOKEN) && output <= u64::from(known.max_tokens);
    let exact_fits = known.exact_output.is_none_or(|exact| exact == output);
    if input_fits && output_fits && exact_fits && cached <= input {
        Ok(Figures { input, cached, output })
    } else {
        Err(IMPOSSIBLE)
    }
}

fn estimate(known: &Known) -> Figures {
    let tokens = |bytes: usize| (bytes as u64).div_ceil(USUAL_TOKEN);
    let written = tokens(known.written_bytes).min(u64::from(known.max_tokens));
    let input = tokens(known.text_bytes) + u64::from(known.images) * USUAL_IMAGE;
    Figures { input, cached: 0, output: known.exact_output.unwrap_or(written) }
}

fn cost(prices: &Prices, input: u64, cached: u64, output: u64) -> u64 {
    let priced = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
    let total = priced(input - cached, prices.input)
        + priced(cached, prices.cached_input)
        + priced(output, prices.output);
    u64::try_from(total / 1_000).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Known =
        Known { text_bytes: 4_000, images: 0, written_bytes: 200, max_tokens: 100, exact_output: None };

    fn check(input: Figure, cached: Figure, output: Figure, expected: (UsageSource, [u64; 3], &[&str])) {
        let usage = settle(&Reported { input, cached, output }, &KNOWN, None, &[]);
        let got = [usage.input_tokens, usage.cached_tokens, usage.output_tokens];
        assert_eq!((usage.source, got, usage.notes), {
            let notes = expected.2.iter().map(|note| (*note).to_owned()).collect();
            (expected.0, expected.1, notes)
        });
    }

    #[test]
    fn i1_what_is_possible_is_believed_and_the_rest_is_not() {
        use Figure::{Count, Missing, Nonsense};
        use UsageSource::{Estimated, Reported};
        check(Count(900), Missing, Count(40), (Reported, [900, 0, 40], &[]));
        check(Count(900), Count(900), Count(1), (Reported, [900, 900, 1], &[]));
        let estimate = [1_000, 0, 50];
        check(Missing, Missing, Missing, (Estimated, estimate, &["usage-missing"]));
        check(Count(900), Missing, Missing, (Estimated, estimate, &["usage-missing"]));
        check(Nonsense, Missing, Count(40), (Estimated, estimate, &["usage-impossible"]));
        check(Count(900), Nonsense, Count(40), (Estimated, estimate, &["usage-impossible"]));
        check(Count(900), Count(901), Count(40), (Estimated, estimate, &["usage-impossible"]));
        check(Count(900), Missing, Count(101), (Estimated, estimate, &["usage-impossible"]));
        check(Count(900), Missing, Count(0), (Estimated, estimate, &["usage-impossible"]));
        check(Count(0), Missing, Count(40), (Estimated, estimate, &["usage-impossible"]));
        check(Count(6), Missing, Count(40), (Estimated, estimate, &["usage-impossible"]));
        check(Count(u64::MAX), Missing, Count(40), (Estimated, estimate, &["usage-impossible"]));
    }

    #[test]
    fn tokens_that_were_counted_beat_the_word() {
        let known = Known { exact_output: Some(7), ..KNOWN };
        let reported =
            Reported { input: Figure::Count(900), cached: Figure::Missing, output: Figure::Count(8) };
        let usage = settle(&reported, &known, None, &["no-done"]);
        assert_eq!((usage.source, usage.output_tokens), (UsageSource::Estimated, 7));
        assert_eq!(usage.notes, ["no-done", "usage-impossible"]);
    }

    #[test]
    fn images_have_tokens_that_their_bytes_say_nothing_of() {
        let check = |images: u32, input: u64, expected: (UsageSource, u64)| {
            let reported =
                Reported { input: Figure::Count(input), cached: Figure::Missing, output: Figure::Count(8) };
            let usage = settle(&reported, &Known { images, ..KNOWN }, None, &[]);
            assert_eq!((usage.source, usage.input_tokens), expected, "{images} {input}");
        };
        check(2, 90_000, (UsageSource::Reported, 90_000));
        check(0, 90_000, (UsageSource::Estimated, 1_000));
        check(2, 900_000, (UsageSource::Estimated, 3_000));
    }

    #[test]
    fn i2_cost() {
        let prices = Prices { input: 2_500_000, cached_input: 1_250_000, output: 10_000_000 };
        // 700 at 2.50, 200 at 1.25 and 40 at 10 US dollars a million.
        assert_eq!(cost(&prices, 900, 200, 40), 1_750_000 + 250_000 + 400_000);
        let cheap = Prices { input: 37_500, cached_input: 0, output: 1 };
        assert_eq!(cost(&cheap, 1, 0, 0), 37);
        assert_eq!(cost(&Prices { input: u64::MAX, ..prices }, u64::MAX, 0, 0), u64::MAX);
    }
}
