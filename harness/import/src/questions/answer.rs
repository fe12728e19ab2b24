//! Turns an answer into a check of the submitted answer.
//!
//! A1. An answer passes its own check. A2. Nothing is guessed: formulas, several values and intervals would have to be
//! evaluated, and are refused.
//!
//! Sources: answers of GSM8K follow `####`; those of MATH, DAPO and similar sets are LaTeX.

use std::fmt::Write;

/// Digits that a float keeps exactly.
const EXACT_DIGITS: usize = 15;

/// Error of float arithmetic in a whole number.
const WHOLE_TOLERANCE: f64 = 1e-6;

/// Tolerance for numbers with few digits: half of the last place would be a large part of them.
const MAX_RELATIVE: f64 = 0.01;

/// Maximum size of an answer.
const MAX_TEXT: usize = 300;

/// Letters that stand for a number or a quantity, not for a unit.
const NO_UNITS: [&str; 37] = [
    "pi",
    "sqrt",
    "mod",
    "times",
    "hundred",
    "thousand",
    "million",
    "billion",
    "trillion",
    "dozen",
    "dozens",
    "half",
    "halves",
    "third",
    "thirds",
    "quarter",
    "quarters",
    "fourth",
    "fourths",
    "fifth",
    "fifths",
    "sixth",
    "sixths",
    "eighth",
    "eighths",
    "tenth",
    "tenths",
    "squared",
    "cubed",
    "factorial",
    "or",
    "and",
    "to",
    "am",
    "pm",
    "score",
    "gross",
];

/// Units of one letter.
const SHORT_UNITS: [&str; 8] = ["m", "g", "s", "h", "l", "L", "N", "W"];

/// How an answer is checked.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// A number within a tolerance.
    Number { text: String, tolerance: f64 },
    /// One of several notations.
    Pattern { text: String, regex: String },
    /// This text, normalised.
    Text(String),
}

impl Answer {
    /// Reads an answer.
    ///
    /// # Errors
    /// Why it cannot be represented.
    pub(super) fn read(written: &str) -> Result<Self, &'static str> {
        let text = core(written);
        if text.is_empty() {
            return Err("the answer is empty");
        }
        if let Some(number) = Decimal::read(&text) {
            return Ok(number.answer());
        }
        if let Some((number, unit)) = with_unit(&text) {
            let regex = whole(&format!("{}{}", number.regex(), unit_regex(&unit)));
            return Ok(Self::Pattern {
                text: format!(
                    "{}{}{unit}",
                    number.text(),
                    if unit.starts_with(['%', '°']) { "" } else { " " }
                ),
                regex,
            });
        }
        if let Some(fraction) = fraction(&text) {
            return fraction;
        }
        if let Some(inner) = words(&text) {
            return Ok(Self::Text(inner));
        }
        Err(if text.contains("\\sqrt") || text.contains("\\pi") {
            "the answer is a formula, which would have to be evaluated"
        } else if text.contains(',') && !text.contains('\\') {
            "the answer has several values, and their order may or may not count"
        } else if text.contains(['\\', '^', '_', '=', '+', '*', '<', '>', '{', '/']) {
            "the answer is a formula, which would have to be evaluated"
        } else {
            "the answer is neither a number nor words"
        })
    }
}

/// The text without LaTeX delimiters, dollar signs and spaces around it.
fn core(written: &str) -> String {
    let mut text = written.rsplit_once("####").map_or(written, |(_, marked)| marked).trim().to_owned();
    for (from, to) in [
        ("\\!", ""),
        ("\\,", ""),
        ("\\;", " "),
        ("\\ ", " "),
        ("~", " "),
        ("\\left", ""),
        ("\\right", ""),
        ("\\$", "$"),
        ("\\%", "%"),
        ("\\dfrac", "\\frac"),
        ("\\tfrac", "\\frac"),
        ("{,}", ","),
        ("−", "-"),
        ("^{\\circ}", "°"),
        ("^\\circ", "°"),
        ("\\mathrm{", "\\text{"),
        ("\\mbox{", "\\text{"),
        ("\\textbf{", "\\text{"),
    ] {
        text = text.replace(from, to);
    }
    loop {
        let inner = text.trim();
        let inner = inner
            .strip_suffix('.')
            .filter(|rest| rest.ends_with(|c: char| c.is_ascii_digit() || c == '$'))
            .unwrap_or(inner);
        let boxed = inner
            .strip_prefix("\\boxed{")
            .and_then(|rest| rest.strip_suffix('}'))
            .filter(|rest| balanced(rest));
        let dollars = inner
            .strip_prefix('$')
            .and_then(|rest| rest.strip_suffix('$'))
            .filter(|rest| !rest.contains('$'));
        let round = inner.strip_prefix("\\(").and_then(|rest| rest.strip_suffix("\\)"));
        let unwrapped = boxed.or(dollars).or(round).unwrap_or(inner).trim();
        if unwrapped.len() == text.len() {
            return text;
        }
        text = unwrapped.to_owned();
    }
}

fn balanced(text: &str) -> bool {
    let mut depth = 0_i32;
    text.chars().all(|character| {
        depth += i32::from(character == '{') - i32::from(character == '}');
        depth >= 0
    }) && depth == 0
}

/// A decimal number as digits.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Decimal {
    negative: bool,
    /// Without leading zeros; `0` if nothing is left.
    whole: String,
    fraction: String,
}

impl Decimal {
    /// Commas separate groups of three digits.
    fn read(text: &str) -> Option<Self> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest.trim_start()),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let unsigned = unsigned.strip_prefix('$').unwrap_or(unsigned).trim();
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let whole = match whole.split_once(',') {
            None => whole.to_owned(),
            Some((first, rest)) => {
                let grouped = (1..=3).contains(&first.len()) && rest.split(',').all(|group| group.len() == 3);
                grouped.then(|| whole.replace(',', ""))?
            }
        };
        if whole.is_empty() && fraction.is_empty() || !digits(&whole) || !digits(fraction) {
            return None;
        }
        let trimmed = whole.trim_start_matches('0');
        let whole = if trimmed.is_empty() { "0" } else { trimmed };
        Some(Self { negative, whole: whole.to_owned(), fraction: fraction.to_owned() })
    }

    fn text(&self) -> String {
        let sign = if self.negative { "-" } else { "" };
        let point = if self.fraction.is_empty() { "" } else { "." };
        format!("{sign}{}{point}{}", self.whole, self.fraction)
    }

    /// A number, or its digits if a float is not exact.
    fn answer(&self) -> Answer {
        let text = self.text();
        if self.whole.len() + self.fraction.len() > EXACT_DIGITS {
            return Answer::Pattern { text, regex: whole(&self.regex()) };
        }
        let tolerance = match self.fraction.len() {
            0 => WHOLE_TOLERANCE,
            // Half of the last place: a rounded number and its exact value both pass.
            places => {
                let half_place: f64 = format!("5e-{}", places + 1).parse().unwrap_or(0.0);
                half_place.min(MAX_RELATIVE * text.parse::<f64>().map_or(0.0, f64::abs))
            }
        };
        Answer::Number { text, tolerance }
    }

    /// The notations of a number.
    fn regex(&self) -> String {
        let mut regex = if self.negative { "[-−]\\s*\\$?" } else { "\\+?\\$?" }.to_owned();
        for (at, digit) in self.whole.chars().enumerate() {
            if at > 0 && (self.whole.len() - at).is_multiple_of(3) {
                regex.push_str(",?");
            }
            regex.push(digit);
        }
        if self.whole == "0" && !self.fraction.is_empty() {
            regex.push('?');
        }
        let significant = self.fraction.trim_end_matches('0');
        if significant.is_empty() {
            regex.push_str("(?:\\.0*)?");
        } else {
            // Writing to a string does not fail.
            let _ = write!(regex, "\\.{significant}0*");
        }
        regex
    }
}

/// A plain number, or one at the end after `####` or in `\boxed{}`.
fn whole(regex: &str) -> String {
    format!(r"^\s*(?:(?s:.*)####\s*|(?s:.*)\\boxed\{{\s*)?\$?(?:{regex})\s*\$?\}}?[\s.$)]*$")
}

fn with_unit(text: &str) -> Option<(Decimal, String)> {
    if let Some(number) = text.strip_suffix('%') {
        return Some((Decimal::read(number.trim())?, "%".to_owned()));
    }
    if let Some(number) = text.strip_suffix('°') {
        return Some((Decimal::read(number.trim())?, "°".to_owned()));
    }
    if let Some((number, rest)) = text.split_once("\\text{") {
        let (unit, after) = rest.split_once('}')?;
        let unit = unit.trim().trim_end_matches('.');
        return (matches!(after, "" | "^2" | "^3") && is_words(unit) && is_unit(unit))
            .then_some(())
            .and_then(|()| Some((Decimal::read(number.trim())?, unit.to_owned())));
    }
    let (number, unit) = text.split_once(' ')?;
    let unit = unit.trim().trim_end_matches('.');
    (is_words(unit) && (unit.len() > 1 || SHORT_UNITS.contains(&unit)) && is_unit(unit)).then_some(())?;
    Some((Decimal::read(number)?, unit.to_owned()))
}

/// No word changes the value of the number before it.
fn is_unit(unit: &str) -> bool {
    !unit.split(' ').any(|word| NO_UNITS.contains(&word.to_lowercase().as_str()))
}

fn is_words(text: &str) -> bool {
    text.len() <= 40 && !text.is_empty() && text.chars().all(|c| c.is_alphabetic() || c == ' ')
}

/// The unit is optional.
fn unit_regex(unit: &str) -> String {
    match unit {
        "%" => r"\s*(?:\\?%|percent)?".to_owned(),
        "°" => r"\s*(?:°|\^\\circ|\^\{\\circ\}|degrees?)?".to_owned(),
        words => format!(r"\s*(?:\\text\{{)?(?i:\s*{})?\}}?(?:\^[23])?", words.replace(' ', r"\s+")),
    }
}

/// A fraction of whole numbers, as written or in lowest terms; also as a decimal if that is finite.
fn fraction(text: &str) -> Option<Result<Answer, &'static str>> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, text),
    };
    let (before, over, under) = match unsigned.split_once("\\frac") {
        Some((before, rest)) => {
            let (over, rest) = frac_part(rest)?;
            let (under, rest) = frac_part(rest)?;
            if !rest.is_empty() {
                return None;
            }
            (before.trim(), over, under)
        }
        None => {
            let (over, under) = unsigned.split_once('/')?;
            ("", over.trim().to_owned(), under.trim().to_owned())
        }
    };
    let (inner_sign, over) = match over.strip_prefix('-') {
        Some(rest) => (true, rest.to_owned()),
        None => (false, over),
    };
    let (over, under) = (over.parse::<u64>().ok()?, under.parse::<u64>().ok()?);
    if !before.is_empty() {
        return Some(Err("the answer may be a mixed number or a product"));
    }
    if under == 0 {
        return Some(Err("the answer divides by zero"));
    }
    let negative = negative != inner_sign && over != 0;
    let divisor = gcd(over, under);
    let (least_over, least_under) = (over / divisor, under / divisor);
    if least_under == 1 {
        let decimal = Decimal { negative, whole: least_over.to_string(), fraction: String::new() };
        return Some(Ok(decimal.answer()));
    }
    let mut ways = Vec::new();
    let reduced = (divisor > 1).then_some((least_over, least_under));
    for (over, under) in std::iter::once((over, under)).chain(reduced) {
        ways.push(format!(r"{over}\s*/\s*{under}"));
        ways.push(format!(r"\\[dt]?frac\s*\{{{over}\}}\s*\{{{under}\}}"));
    }
    if let Some(decimal) = decimal(least_over, least_under) {
        ways.push(decimal.regex());
    }
    let sign = if negative { "[-−]\\s*" } else { "\\+?" };
    let text = format!("{}{least_over}/{least_under}", if negative { "-" } else { "" });
    Some(Ok(Answer::Pattern { text, regex: whole(&format!("{sign}(?:{})", ways.join("|"))) }))
}

/// `{12}` or a single digit, and the rest.
fn frac_part(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start();
    if let Some(rest) = text.strip_prefix('{') {
        let (inside, rest) = rest.split_once('}')?;
        return Some((inside.trim().to_owned(), rest));
    }
    let digit = text.chars().next().filter(char::is_ascii_digit)?;
    Some((digit.to_string(), &text[1..]))
}

fn gcd(left: u64, right: u64) -> u64 {
    if right == 0 { left.max(1) } else { gcd(right, left % right) }
}

/// A fraction in lowest terms as a decimal, if that has at most fifteen places.
fn decimal(over: u64, under: u64) -> Option<Decimal> {
    let mut rest = u128::from(over % under);
    let mut fraction = String::new();
    while rest != 0 {
        if fraction.len() == EXACT_DIGITS {
            return None;
        }
        rest *= 10;
        fraction.push(char::from_digit(u32::try_from(rest / u128::from(under)).ok()?, 10)?);
        rest %= u128::from(under);
    }
    Some(Decimal { negative: false, whole: (over / under).to_string(), fraction })
}

/// Words without a formula among them.
fn words(text: &str) -> Option<String> {
    let inner = text.strip_prefix("\\text{").and_then(|rest| rest.strip_suffix('}')).unwrap_or(text).trim();
    let plain = |c: char| c.is_alphanumeric() || c == ' ' || "'’\"-.,;:!?&()".contains(c);
    let is_plain = inner.chars().all(plain) && inner.chars().any(char::is_alphabetic);
    // `2x`, `5 pi`, `3 million` and `f(x)` are formulas; `A`, `(B)` and `24th of May` are not.
    let counts = inner.starts_with(|c: char| c.is_ascii_digit());
    let words = || inner.split([' ', '-', ',', '(', ')']).filter(|word| !word.is_empty());
    let mixes = |word: &str| {
        let letters = word.chars().filter(|c| c.is_alphabetic()).count();
        counts && !is_unit(word) || (letters == 1 && word.chars().any(|c| c.is_ascii_digit()))
    };
    let is_call = inner.char_indices().any(|(at, c)| c == '(' && at > 0 && !inner[..at].ends_with(' '));
    (inner.len() <= MAX_TEXT && is_plain && !words().any(mixes) && !is_call).then(|| inner.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(written: &str, expected: Result<(&str, &str), &str>) {
        let found = Answer::read(written);
        let found = found.as_ref().map(|answer| match answer {
            Answer::Number { text, .. } => ("number", text.as_str()),
            Answer::Pattern { text, .. } => ("pattern", text.as_str()),
            Answer::Text(text) => ("text", text.as_str()),
        });
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{written}"),
            (Err(found), Err(part)) => assert!(found.contains(part), "{written}: {found}"),
            (found, expected) => panic!("{written}: {found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn numbers_in_all_notations_become_checks() {
        check("She has 3 + 4 = <<3+4=7>>7.\n#### 7", Ok(("number", "7")));
        check("#### 1,234", Ok(("number", "1234")));
        check("$18", Ok(("number", "18")));
        check("\\$18.50", Ok(("number", "18.50")));
        check("$-5$", Ok(("number", "-5")));
        check("\\boxed{12}", Ok(("number", "12")));
        check("−3.", Ok(("number", "-3")));
        check("007", Ok(("number", "7")));
        check("10{,}000", Ok(("number", "10000")));
        check("\\frac{6}{3}", Ok(("number", "2")));
        check("1267650600228229401496703205376", Ok(("pattern", "1267650600228229401496703205376")));
    }

    #[test]
    fn fractions_and_units_become_checks() {
        check("\\frac{1}{2}", Ok(("pattern", "1/2")));
        check("-\\dfrac{4}{6}", Ok(("pattern", "-2/3")));
        check("\\frac{-1}{2}", Ok(("pattern", "-1/2")));
        check("\\frac12", Ok(("pattern", "1/2")));
        check("3/4", Ok(("pattern", "3/4")));
        check("50\\%", Ok(("pattern", "50%")));
        check("90^\\circ", Ok(("pattern", "90°")));
        check("12\\text{ cm}", Ok(("pattern", "12 cm")));
        check("15 minutes", Ok(("pattern", "15 minutes")));
        check("12 \\mathrm{cm}^2", Ok(("pattern", "12 cm")));
    }

    #[test]
    fn words_become_checks() {
        check("Paris", Ok(("text", "Paris")));
        check("\\text{(B)}", Ok(("text", "(B)")));
        check("Monday, the 24th of May", Ok(("text", "Monday, the 24th of May")));
    }

    /// A2.
    #[test]
    fn nothing_is_guessed() {
        check("", Err("empty"));
        check("\\sqrt{2}", Err("formula"));
        check("x^2+1", Err("formula"));
        check("2x", Err("neither"));
        check("5 pi", Err("neither"));
        check("5 million", Err("neither"));
        check("2 thirds", Err("neither"));
        check("3 or more", Err("neither"));
        check("f(x)", Err("neither"));
        check("2\\frac{1}{2}", Err("mixed"));
        check("1, 2", Err("several"));
        check("(3, 4)", Err("several"));
        check("\\frac{1}{0}", Err("zero"));
        check("\\frac{x}{2}", Err("formula"));
    }

    #[test]
    fn tolerance_follows_decimal_places() {
        let check = |written: &str, expected: f64| match Answer::read(written) {
            Ok(Answer::Number { tolerance, .. }) => assert_eq!(tolerance, expected, "{written}"),
            other => panic!("{other:?}"),
        };
        check("7", 1e-6);
        check("3.33", 0.005);
        check("18.5", 0.05);
        check("0.5", 0.005);
    }
}
