//! Size checks of operations whose results may be much larger than their arguments, before the result exists.

use std::borrow::Cow;

use minijinja::{Error, Value};

use crate::meter::{ENTRY_BYTES, Exceeded, MAX_DEPTH, VALUE_BYTES, bytes_of};

/// Maximum characters to trim; each is compared with each character of the text.
const MAX_TRIMMED: usize = 256;

/// Refuses a call whose result would be too large. `arguments` start with the value itself; unknown names pass.
pub(crate) fn check(name: &str, arguments: &[Value]) -> Result<(), Error> {
    let text_at = |index: usize| arguments.get(index).map_or(Cow::Borrowed(""), text);
    let number_at = |index: usize| arguments.get(index).and_then(Value::as_usize);
    let bytes = match name {
        "replace" => text_at(0).matches(&*text_at(1)).count().saturating_mul(text_at(2).len()),
        "join" => {
            // As a filter, the list comes first; as a method of Python strings, the separator does.
            let [first, second, ..] = arguments else { return Ok(()) };
            let (list, between) = if first.as_object().is_some() { (first, second) } else { (second, first) };
            list.len().unwrap_or(0).saturating_mul(text(between).len())
        }
        "indent" => {
            let named = || arguments.last()?.get_attr("width").ok()?.as_usize();
            (text_at(0).matches('\n').count() + 1).saturating_mul(number_at(1).or_else(named).unwrap_or(0))
        }
        "batch" | "slice" => number_at(1).unwrap_or(0).saturating_mul(ENTRY_BYTES),
        "format" => {
            let format = text_at(0);
            let longest = arguments
                .iter()
                .skip(1)
                .map(bytes_of)
                .try_fold(0, |most, bytes| bytes.map(|bytes| most.max(bytes)))?;
            format.matches(['%', '{']).count().saturating_mul(longest).saturating_add(widths(&format))
        }
        // Each entry is indented by its depth, time and again.
        "pprint" => bytes_of(arguments.first().unwrap_or(&Value::UNDEFINED))?.saturating_mul(MAX_DEPTH),
        "trim" | "strip" | "lstrip" | "rstrip" if text_at(1).len() > MAX_TRIMMED => {
            return Err(Exceeded::error(format!("more than {MAX_TRIMMED} bytes of characters to trim")));
        }
        _ => 0,
    };
    if bytes <= VALUE_BYTES { Ok(()) } else { Err(Exceeded::large_value()) }
}

/// Refuses a product of a text or a list and a number that would be too large.
pub(crate) fn check_product(left: &Value, right: &Value) -> Result<(), Error> {
    let (repeated, times) = match (left.as_usize(), right.as_usize()) {
        (None, Some(times)) => (left, times),
        (Some(times), None) => (right, times),
        _ => return Ok(()),
    };
    let once = repeated.as_bytes().map_or_else(|| ENTRY_BYTES * repeated.len().unwrap_or(0), <[u8]>::len);
    if once.saturating_mul(times) <= VALUE_BYTES { Ok(()) } else { Err(Exceeded::large_value()) }
}

fn text(value: &Value) -> Cow<'_, str> {
    value.as_str().map_or_else(|| value.to_string().into(), Cow::Borrowed)
}

/// The sum of all numbers in a text: an upper bound for the widths and precisions that a format names.
fn widths(format: &str) -> usize {
    let numbers = format.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    numbers.map(|digits| digits.parse().unwrap_or(usize::MAX)).fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_seen_before_it_happens() {
        let long = Value::from("ab".repeat(1 << 20));
        let list: Value = (0..100_000).collect();
        let check_of = |name: &str, arguments: &[Value], is_taken: bool| {
            assert_eq!(check(name, arguments).is_ok(), is_taken, "{name} {:.200}", format!("{arguments:?}"));
        };
        check_of("replace", &[long.clone(), "a".into(), "bcd".into()], true);
        check_of("replace", &[long.clone(), "a".into(), long.clone()], false);
        check_of("replace", &[long.clone(), "".into(), long.clone()], false);
        check_of("join", &[list.clone(), ", ".into()], true);
        check_of("join", &[list.clone(), long.clone()], false);
        check_of("join", &[long.clone(), list], false);
        check_of("indent", &["a\nb".into(), 8.into()], true);
        check_of("indent", &["a\nb".into(), usize::MAX.into()], false);
        check_of("batch", &[long.clone(), 1_000_000_000.into()], false);
        check_of("format", &["%5d of %s".into(), 3.into(), long.clone()], true);
        check_of("format", &["{0}".repeat(99).into(), long.clone()], false);
        check_of("format", &["%999999999999d".into()], false);
        check_of("format", &["{:99999999999999999999}".into()], false);
        check_of("strip", &[long.clone(), " \n".into()], true);
        check_of("strip", &[long.clone(), long], false);
        check_of("pprint", &[vec![1, 2, 3].into()], true);
        check_of("pprint", &[(0..100_000).collect()], false);
        check_of("upper", &["a".into()], true);
    }

    #[test]
    fn a_product_is_seen_before_it_is_made() {
        let check_of = |left: Value, right: Value, is_taken: bool| {
            assert_eq!(check_product(&left, &right).is_ok(), is_taken, "{left} * {right}");
        };
        check_of("ab".into(), (4 << 20).into(), true);
        check_of((9 << 20).into(), "ab".into(), false);
        check_of(vec![1].into(), 99_999_999.into(), false);
        check_of(i64::MAX.into(), i64::MAX.into(), true);
        check_of(2.5.into(), 99_999_999.into(), true);
    }
}
