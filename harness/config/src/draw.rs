//! Choosing values for template variables.
//!
//! I1. Instance i is a function of (seed, variables, i): more instances never change earlier ones.
//! I2. Instances are distinct until all combinations are used.
//! I3. A drawn value is never excluded by `distinct_from`.

use std::collections::HashSet;
use std::ops::ControlFlow;

use clawrl_core::{SplitMix64, derive_seed};
use minijinja::Value;
use minijinja::value::ValueKind;

/// Combinations up to which they are listed and shuffled. Above, drawing anew until one is unseen is cheap,
/// because at most 10,000 of more than 65,536 are taken.
const LISTED_COMBINATIONS: u64 = 65_536;

/// Draws after which an instance may repeat another. Reached only when constraints leave less than listed
/// combinations of a space that looked larger.
const MAX_REDRAWS: u64 = 200;

/// Draws from a list before its excluded values are sorted out.
const GUESSES: u32 = 8;

/// Possible values of one variable.
#[derive(Debug, Clone)]
pub(crate) enum Domain {
    /// One of these. Never empty.
    OneOf(Vec<Value>),
    /// A whole number, both ends included.
    Range(i64, i64),
    /// Between `fewest` and `most` distinct entries, in random order.
    Sample { entries: Vec<Value>, fewest: usize, most: usize },
}

/// A variable of a template.
#[derive(Debug, Clone)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) domain: Domain,
    /// Positions of earlier variables whose values this one must not take.
    pub(crate) distinct_from: Vec<usize>,
}

/// One value for each variable, in their order.
pub(crate) type Assignment = Vec<Value>;

/// Upper bound of the number of combinations: exact without `distinct_from`.
pub(crate) fn combinations(variables: &[Variable]) -> u64 {
    variables.iter().fold(1u64, |product, variable| product.saturating_mul(size(&variable.domain)))
}

fn size(domain: &Domain) -> u64 {
    match domain {
        Domain::OneOf(values) => values.len() as u64,
        Domain::Range(low, high) => high.abs_diff(*low).saturating_add(1),
        Domain::Sample { entries, fewest, most } => {
            let orders = |count: usize| {
                (0..count).fold(1u64, |product, taken| product.saturating_mul((entries.len() - taken) as u64))
            };
            (*fewest..=*most).fold(0u64, |sum, count| sum.saturating_add(orders(count)))
        }
    }
}

/// Every combination in natural order, or `None` when there are more than `limit`.
pub(crate) fn all(variables: &[Variable], limit: usize) -> Option<Vec<Assignment>> {
    let mut found = Vec::new();
    let flow = each(variables, &mut Vec::new(), &mut |assignment| {
        if found.len() == limit {
            return ControlFlow::Break(());
        }
        found.push(assignment.to_vec());
        ControlFlow::Continue(())
    });
    flow.is_continue().then_some(found)
}

/// `count` combinations: distinct ones as long as there are any, then the same again.
pub(crate) fn some(variables: &[Variable], count: usize, seed: u64) -> Vec<Assignment> {
    if combinations(variables) > LISTED_COMBINATIONS {
        return by_redrawing(variables, count, seed);
    }
    // The bound above makes this list complete.
    let mut listed = all(variables, LISTED_COMBINATIONS as usize).unwrap_or_default();
    if listed.is_empty() {
        return Vec::new();
    }
    let mut stream = SplitMix64::new(seed);
    for index in 0..count.min(listed.len()) {
        let other = index + stream.below((listed.len() - index) as u64) as usize;
        listed.swap(index, other);
    }
    (0..count).map(|index| listed[index % listed.len()].clone()).collect()
}

/// Up to `count` combinations, all different.
pub(crate) fn distinct(variables: &[Variable], count: usize, seed: u64) -> Vec<Assignment> {
    let mut seen = HashSet::with_capacity(count);
    let mut drawn = some(variables, count, seed);
    drawn.retain(|assignment| seen.insert(assignment.clone()));
    drawn
}

fn by_redrawing(variables: &[Variable], count: usize, seed: u64) -> Vec<Assignment> {
    let mut seen = HashSet::with_capacity(count);
    let mut drawn = Vec::with_capacity(count);
    for index in 0..count as u64 {
        let mut assignment = Vec::new();
        for redraw in 0..MAX_REDRAWS {
            let mut stream = SplitMix64::new(derive_seed(seed, "instance", &[index, redraw]));
            assignment = draw(variables, &mut stream);
            if seen.insert(assignment.clone()) {
                break;
            }
        }
        drawn.push(assignment);
    }
    drawn
}

fn draw(variables: &[Variable], stream: &mut SplitMix64) -> Assignment {
    let mut assignment = Vec::with_capacity(variables.len());
    for variable in variables {
        let excluded = excluded(variable, &assignment);
        let value = match &variable.domain {
            Domain::OneOf(values) => one_of(values, &excluded, stream),
            Domain::Range(low, high) => in_range(*low, *high, &excluded, stream),
            Domain::Sample { entries, fewest, most } => {
                let mut entries = allowed(entries, &excluded);
                let count = fewest + stream.below((most - fewest) as u64 + 1) as usize;
                let count = count.min(entries.len());
                for index in 0..count {
                    let other = index + stream.below((entries.len() - index) as u64) as usize;
                    entries.swap(index, other);
                }
                Value::from_iter(entries.into_iter().take(count).cloned())
            }
        };
        assignment.push(value);
    }
    assignment
}

/// Uniform over the values that are not excluded. The suite was refused if there may be none.
fn one_of(values: &[Value], excluded: &[Value], stream: &mut SplitMix64) -> Value {
    // Looking at one value at a time beats sorting out a long list for one.
    for _ in 0..GUESSES {
        if let Some(value) = values.get(stream.below(values.len() as u64) as usize)
            && !excluded.contains(value)
        {
            return value.clone();
        }
    }
    let allowed = allowed(values, excluded);
    allowed.get(stream.below(allowed.len() as u64) as usize).map(|value| (*value).clone()).unwrap_or_default()
}

/// The n-th number of the range that is not excluded.
fn in_range(low: i64, high: i64, excluded: &[Value], stream: &mut SplitMix64) -> Value {
    let mut holes: Vec<i64> =
        excluded.iter().filter_map(Value::as_i64).filter(|hole| (low..=high).contains(hole)).collect();
    holes.sort_unstable();
    holes.dedup();
    let free = high.abs_diff(low).saturating_add(1) - holes.len() as u64;
    let mut number = low.wrapping_add_unsigned(stream.below(free));
    for hole in holes {
        if number >= hole {
            number += 1;
        }
    }
    Value::from(number)
}

fn allowed<'a>(values: &'a [Value], excluded: &[Value]) -> Vec<&'a Value> {
    values.iter().filter(|value| !excluded.contains(value)).collect()
}

/// The values that `distinct_from` rules out, lists flattened.
fn excluded(variable: &Variable, assignment: &[Value]) -> Vec<Value> {
    let earlier = variable.distinct_from.iter().filter_map(|&position| assignment.get(position));
    earlier.flat_map(flattened).collect()
}

/// The value itself, or the entries of a list.
pub(crate) fn flattened(value: &Value) -> Vec<Value> {
    match value.kind() {
        ValueKind::Seq => value.try_iter().map(Iterator::collect).unwrap_or_default(),
        _ => vec![value.clone()],
    }
}

/// Visits every combination in natural order.
fn each(
    variables: &[Variable],
    prefix: &mut Assignment,
    visit: &mut dyn FnMut(&[Value]) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let Some(variable) = variables.get(prefix.len()) else { return visit(prefix) };
    let excluded = excluded(variable, prefix);
    let mut with = |value: Value, prefix: &mut Assignment| {
        prefix.push(value);
        let flow = each(variables, prefix, visit);
        prefix.pop();
        flow
    };
    match &variable.domain {
        Domain::OneOf(values) => {
            for value in allowed(values, &excluded) {
                with(value.clone(), prefix)?;
            }
        }
        Domain::Range(low, high) => {
            for number in *low..=*high {
                let value = Value::from(number);
                if !excluded.contains(&value) {
                    with(value, prefix)?;
                }
            }
        }
        Domain::Sample { entries, fewest, most } => {
            let entries = allowed(entries, &excluded);
            for count in *fewest..=*most {
                selections(&entries, count, &mut Vec::new(), &mut |chosen| {
                    with(Value::from_iter(chosen.iter().map(|&at| entries[at].clone())), prefix)
                })?;
            }
        }
    }
    ControlFlow::Continue(())
}

/// Visits every ordered selection of `count` of the entries, as positions.
fn selections(
    entries: &[&Value],
    count: usize,
    chosen: &mut Vec<usize>,
    visit: &mut dyn FnMut(&[usize]) -> ControlFlow<()>,
) -> ControlFlow<()> {
    if chosen.len() == count {
        return visit(chosen);
    }
    for at in 0..entries.len() {
        if !chosen.contains(&at) {
            chosen.push(at);
            let flow = selections(entries, count, chosen, visit);
            chosen.pop();
            flow?;
        }
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(count: usize) -> Vec<Value> {
        (0..count).map(|at| Value::from(format!("w{at}"))).collect()
    }

    fn variable(name: &str, domain: Domain, distinct_from: &[usize]) -> Variable {
        Variable { name: name.to_owned(), domain, distinct_from: distinct_from.to_vec() }
    }

    fn distinct(assignments: &[Assignment]) -> usize {
        assignments.iter().cloned().collect::<HashSet<_>>().len()
    }

    #[test]
    fn combinations_are_counted_as_they_are_listed() {
        let variables = [
            variable("a", Domain::OneOf(words(3)), &[]),
            variable("n", Domain::Range(-1, 1), &[]),
            variable("l", Domain::Sample { entries: words(3), fewest: 1, most: 2 }, &[]),
        ];
        assert_eq!(combinations(&variables), 3 * 3 * (3 + 6));
        assert_eq!(all(&variables, 100).map(|listed| distinct(&listed)), Some(81));
        assert!(all(&variables, 80).is_none());
    }

    #[test]
    fn a_range_may_be_all_of_i64() {
        let variables = [variable("n", Domain::Range(i64::MIN, i64::MAX), &[])];
        assert_eq!(distinct(&some(&variables, 100, 7)), 100);
    }

    proptest! {
        /// I1, I2 and I3, in listed and in large spaces.
        #[test]
        fn draws_keep_the_invariants(seed: u64, words_there in 2usize..60, count in 1usize..60, top in 1i64..400) {
            let variables = [
                variable("a", Domain::OneOf(words(words_there)), &[]),
                variable("b", Domain::OneOf(words(words_there)), &[0]),
                variable("n", Domain::Range(0, top), &[]),
                variable("m", Domain::Range(0, top), &[2]),
            ];
            let drawn = some(&variables, count, seed);
            prop_assert_eq!(drawn.len(), count);
            let space = words_there * (words_there - 1) * (top as usize + 1) * top as usize;
            prop_assert_eq!(distinct(&drawn), count.min(space));
            for assignment in &drawn {
                prop_assert_ne!(&assignment[0], &assignment[1]);
                prop_assert_ne!(&assignment[2], &assignment[3]);
                prop_assert!((0..=top).contains(&assignment[3].as_i64().unwrap_or(-1)));
            }
            prop_assert_eq!(&some(&variables, count.div_ceil(2), seed)[..], &drawn[..count.div_ceil(2)]);
        }

        #[test]
        fn samples_hold_distinct_entries(seed: u64, there in 3usize..12) {
            let domain = Domain::Sample { entries: words(there), fewest: 1, most: there - 1 };
            let variables = [
                variable("w", Domain::OneOf(words(there)), &[]),
                variable("l", domain, &[0]),
            ];
            for assignment in some(&variables, 5, seed) {
                let entries = flattened(&assignment[1]);
                prop_assert!(!entries.is_empty() && entries.len() < there);
                prop_assert!(!entries.contains(&assignment[0]));
                prop_assert_eq!(entries.iter().collect::<HashSet<_>>().len(), entries.len());
            }
        }
    }
}
