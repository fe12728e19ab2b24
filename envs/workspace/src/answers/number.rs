//! Finds the number that an answer is, or ends with.
//!
//! Ambiguous texts, such as one with two numbers, have none. Supported: signs, decimals, exponents, commas between
//! groups of three digits; a `$` around the number and a point behind it are ignored.

/// A longer text is not a number.
const MAX_CHARS: usize = 400;

/// The number of the whole answer, or after its last `####`, or in its last `\boxed{}` if only punctuation follows
/// that.
pub(super) fn number(answer: &str) -> Option<f64> {
    if let Some((_, marked)) = answer.rsplit_once("####") {
        return parse(marked);
    }
    match answer.rsplit_once("\\boxed{") {
        Some((_, inside)) => {
            let (number, after) = inside.split_once('}')?;
            let nothing = |character: char| {
                character.is_whitespace() || matches!(character, '.' | '$' | ')' | ']' | '\\')
            };
            after.chars().all(nothing).then(|| parse(number))?
        }
        None => parse(answer),
    }
}

/// Parses a text that is exactly one number.
pub(super) fn parse(text: &str) -> Option<f64> {
    let text = text.trim();
    if text.len() > MAX_CHARS {
        return None;
    }
    let text = text.strip_suffix('.').unwrap_or(text);
    let text = text.trim_matches('$').trim();
    let (sign, unsigned) = match text.strip_prefix(['-', '−', '+']) {
        Some(rest) if text.starts_with('+') => (1.0, rest),
        Some(rest) => (-1.0, rest),
        None => (1.0, text),
    };
    let unsigned = unsigned.strip_prefix('$').unwrap_or(unsigned);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let whole = without_groups(whole)?;
    if whole.is_empty() && fraction.is_empty() || !is_digits(fraction) {
        return None;
    }
    let exponent = match exponent {
        None => "0",
        Some(exponent) => {
            let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            if digits.is_empty() || !is_digits(digits) {
                return None;
            }
            exponent
        }
    };
    let value: f64 = format!("0{whole}.{fraction}0e{exponent}").parse().ok()?;
    value.is_finite().then_some(sign * value)
}

/// Digits without the commas between groups of three.
fn without_groups(digits: &str) -> Option<String> {
    if !digits.contains(',') {
        return is_digits(digits).then(|| digits.to_owned());
    }
    let mut groups = digits.split(',');
    let first = groups.next().is_some_and(|first| (1..=3).contains(&first.len()) && is_digits(first));
    let rest = groups.all(|group| group.len() == 3 && is_digits(group));
    (first && rest).then(|| digits.replace(',', ""))
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(answer: &str, expected: Option<f64>) {
        assert_eq!(number(answer), expected, "{answer:?}");
    }

    #[test]
    fn number_notations_are_equal() {
        for (answer, expected) in [
            ("42", 42.0),
            (" 42.\n", 42.0),
            ("-1,234,567.5", -1_234_567.5),
            ("−3", -3.0),
            ("+3", 3.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e3", 1000.0),
            ("2.5E-1", 0.25),
            ("$18", 18.0),
            ("-$18", -18.0),
            ("$18$", 18.0),
            ("007", 7.0),
            ("So 3 + 4 = 7.\n#### 7", 7.0),
            ("#### 1 #### 2", 2.0),
            (r"Thus $\boxed{12}$.", 12.0),
            (r"\boxed{1} and \boxed{ 1,000 }", 1000.0),
        ] {
            check(answer, Some(expected));
        }
    }

    #[test]
    fn nothing_is_guessed() {
        for answer in [
            "",
            " ",
            ".",
            "-",
            "e5",
            "1e",
            "1e+",
            "the answer is 42",
            "1 2",
            "3/4",
            "1,23",
            "1,2345",
            ",123",
            "1,,000",
            "0x10",
            "1_000",
            "inf",
            "NaN",
            "1e999",
            "1.2.3",
            "--1",
            "٣",
            "#### 7 apples",
            "42 ####",
            r"\boxed{7} apples",
            r"\boxed{7",
            r"\boxed{\frac{1}{2}}",
            "12e1.5",
        ] {
            check(answer, None);
        }
        check(&"9".repeat(401), None);
    }

    proptest! {
        #[test]
        fn never_panics(answer in any::<String>(), marked in "[-+−$.,0-9eE#} ]{0,40}") {
            number(&answer);
            number(&marked);
            number(&format!("{answer}#### {marked}"));
            number(&format!("{answer}\\boxed{{{marked}}}{answer}"));
        }

        #[test]
        fn number_notations_are_parsed(value in any::<f64>().prop_filter("finite", |value| value.is_finite())) {
            prop_assert_eq!(number(&format!("{value:e}")), Some(value));
            let integer = (value % 1e15).trunc();
            prop_assert_eq!(number(&integer.to_string()), Some(integer));
        }
    }
}
