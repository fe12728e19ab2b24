//! Binary arithmetic.
//!
//! A1. Integers of 64 bits are computed exactly, if the result is an integer of 128 bits.
//! A2. Everything else is rounded to 12 significant digits, so that 0.1 + 0.2 is 0.3.

use serde_json::{Map, Number, Value};

use crate::result::CallResult;

/// Computes `left operator right`.
pub(crate) fn arithmetic(arguments: &Map<String, Value>) -> CallResult {
    let number = |name: &str| arguments.get(name).and_then(Value::as_number);
    let missing = |name: &str| CallResult::failed(format_args!("`{name}` is missing, a number"));
    let Some(left) = number("left") else { return missing("left") };
    let Some(right) = number("right") else { return missing("right") };
    let operator = arguments.get("operator").and_then(Value::as_str).unwrap_or_default();
    if operator == "/" && right.as_f64() == Some(0.0) {
        return CallResult::failed("division by zero");
    }
    if let (Some(left), Some(right)) = (integer(left), integer(right))
        && let Some(result) = exactly(left, operator, right)
    {
        return CallResult::done(result.to_string());
    }
    let (Some(left), Some(right)) = (left.as_f64(), right.as_f64()) else {
        return CallResult::failed("the numbers are too large");
    };
    let result = match operator {
        "+" => left + right,
        "-" => left - right,
        "*" => left * right,
        "/" => left / right,
        _ => return CallResult::failed("`operator` must be one of + - * /"),
    };
    if result.is_finite() {
        CallResult::done(written(result))
    } else {
        CallResult::failed("the result is too large")
    }
}

fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn exactly(left: i128, operator: &str, right: i128) -> Option<i128> {
    match operator {
        "+" => left.checked_add(right),
        "-" => left.checked_sub(right),
        "*" => left.checked_mul(right),
        "/" if left.checked_rem(right) == Some(0) => left.checked_div(right),
        _ => None,
    }
}

fn written(result: f64) -> String {
    let rounded: f64 = format!("{result:.11e}").parse().unwrap_or(result);
    match rounded.abs() {
        0.0 => "0".to_owned(),
        1e-6..1e15 => rounded.to_string(),
        _ => format!("{rounded:e}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(left: Value, operator: &str, right: Value, expected: &str) {
        let arguments = json!({"left": left, "operator": operator, "right": right});
        assert_eq!(arithmetic(arguments.as_object().unwrap()).text, expected, "{arguments}");
    }

    #[test]
    fn numbers_come_out_as_people_write_them() {
        check(json!(2), "+", json!(3), "5");
        check(json!(2), "-", json!(3), "-1");
        check(json!(6), "/", json!(3), "2");
        check(json!(7), "/", json!(2), "3.5");
        check(json!(1), "/", json!(3), "0.333333333333");
        check(json!(0.1), "+", json!(0.2), "0.3");
        check(json!(2.5), "*", json!(2), "5");
        check(json!(-0.0), "*", json!(2), "0");
        check(json!(u64::MAX), "*", json!(10), "184467440737095516150");
        check(json!(1e300), "*", json!(10), "1e301");
        check(json!(1e-300), "/", json!(3), "3.33333333333e-301");
        check(json!(1e308), "*", json!(10), "error: the result is too large");
        check(json!(1), "/", json!(0.0), "error: division by zero");
        check(json!(1), "^", json!(2), "error: `operator` must be one of + - * /");
        check(json!("1"), "+", json!(2), "error: `left` is missing, a number");
        check(json!(1), "+", json!(null), "error: `right` is missing, a number");
    }

    proptest! {
        #[test]
        fn a1_integers_are_exact(left: i64, right: i64) {
            let arguments = json!({"left": left, "operator": "*", "right": right});
            prop_assert_eq!(arithmetic(arguments.as_object().unwrap()).text, (i128::from(left) * i128::from(right)).to_string());
        }

        #[test]
        fn never_panics(left in any::<f64>(), right in any::<f64>(), operator in "[-+*/x]") {
            let arguments = json!({"left": left, "operator": operator, "right": right});
            arithmetic(arguments.as_object().unwrap());
        }
    }
}
