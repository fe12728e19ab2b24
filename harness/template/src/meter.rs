//! Limits of a rendering, and sizes of values.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use minijinja::value::{DynObject, ObjectRepr, ValueKind};
use minijinja::{AutoEscape, Error, ErrorKind, State, Value};

use crate::growth;

/// Steps of one rendering: iterations of loops, and operations that create or write a value. Chat templates of real models need some
/// dozens per message.
const MAX_STEPS: usize = 1_000_000;

/// Maximum bytes of one value with everything in it, counted once per occurrence.
pub const VALUE_BYTES: usize = 16 << 20;

/// Bytes that a rendering makes, those that it drops again among them.
const ALL_BYTES: usize = 512 << 20;

/// Maximum nesting of values. A JSON document has at most 128.
pub(crate) const MAX_DEPTH: usize = 200;

/// Maximum time of a rendering, which bounds what counting steps does not: one step may compare values of [`VALUE_BYTES`].
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Maximum growth of a byte when it is printed: a control character in a list is `\u{1}`, and one in a page may be `&quot;`.
const ESCAPED: usize = 6;

/// Bytes of an entry of a list or map, besides its content.
pub(crate) const ENTRY_BYTES: usize = 24;

/// A bound that a rendering came to; as the source of its [`Error`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exceeded(String);

impl Exceeded {
    /// Whether an error, or its cause, is this one.
    #[must_use]
    pub fn of(error: &Error) -> Option<&Self> {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(error) = cause {
            if let Some(exceeded) = error.downcast_ref() {
                return Some(exceeded);
            }
            cause = error.source();
        }
        None
    }

    /// The error of a value that is too large.
    #[must_use]
    pub fn large_value() -> Error {
        Self::error(format!("a value of more than {} MiB", VALUE_BYTES >> 20))
    }

    pub(crate) fn error(bound: String) -> Error {
        let exceeded = Self(bound);
        Error::new(ErrorKind::InvalidOperation, exceeded.to_string()).with_source(exceeded)
    }
}

/// Clause of "the template takes too much: ...".
impl std::fmt::Display for Exceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Exceeded {}

/// Limits of one rendering.
#[derive(Debug)]
struct Meter {
    steps: usize,
    bytes: usize,
    until: Instant,
    /// First factors of products whose second factors are being computed.
    factors: Vec<Value>,
}

fn meter<'s>(state: &'s mut State<'_, '_>) -> &'s mut Meter {
    let new = || Meter {
        steps: MAX_STEPS,
        bytes: ALL_BYTES,
        until: Instant::now() + TIME_LIMIT,
        factors: Vec::new(),
    };
    state.get_or_insert_extension_with(new)
}

/// Counts a step, and looks at the clock.
pub(crate) fn step(state: &mut State<'_, '_>) -> Result<(), Error> {
    let meter = meter(state);
    meter.steps = meter.steps.checked_sub(1).ok_or_else(|| {
        Exceeded::error(format!("more than {MAX_STEPS} steps; those of nested loops multiply"))
    })?;
    if Instant::now() < meter.until {
        return Ok(());
    }
    Err(Exceeded::error(format!("more than {} s", TIME_LIMIT.as_secs())))
}

/// Counts bytes that were made.
fn spend(state: &mut State<'_, '_>, bytes: usize) -> Result<(), Error> {
    let meter = meter(state);
    let left = meter.bytes.checked_sub(bytes);
    let much = || Exceeded::error(format!("values of more than {} MiB together", ALL_BYTES >> 20));
    meter.bytes = left.ok_or_else(much)?;
    Ok(())
}

/// Passes on a value that was just made of others, if it is within the bounds.
pub(crate) fn keep(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
    step(state)?;
    let (value, _) = bounded(value)?;
    let entries = value.len().filter(|_| value.as_object().is_some()).unwrap_or(0);
    spend(state, value.as_bytes().map_or(entries * ENTRY_BYTES, <[u8]>::len))?;
    Ok(value)
}

/// Like [`keep`], for values that may contain new values.
pub(crate) fn keep_result(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
    step(state)?;
    let (value, bytes) = bounded(value)?;
    spend(state, bytes)?;
    Ok(value)
}

/// Weighs a value, and returns it with its bytes. The entries of a lazy sequence are computed here, so that no later step computes them again.
fn bounded(value: Value) -> Result<(Value, usize), Error> {
    // The engine's sum of two lists searches both of them on each access.
    let is_sum = value.as_object().is_some_and(|object| object.type_name().ends_with("::MergeSeq"));
    if value.kind() != ValueKind::Iterable && !is_sum {
        return bytes_of(&value).map(|bytes| (value, bytes));
    }
    let (mut left, mut items) = (VALUE_BYTES, Vec::new());
    add_items(&value, &mut items, &mut left)?;
    let is_list = value.kind() == ValueKind::Seq;
    Ok((if is_list { Value::from(items) } else { iterable(items) }, VALUE_BYTES - left))
}

fn add_items(of: &Value, items: &mut Vec<Value>, left: &mut usize) -> Result<(), Error> {
    for item in of.try_iter()?.checked() {
        let item = item?;
        weigh(&item, 1, left)?;
        items.push(item);
    }
    Ok(())
}

fn iterable(items: Vec<Value>) -> Value {
    Value::make_object_iterable(items, |items| Box::new(items.iter().cloned()))
}

/// Passes on a value that a namespace is about to hold.
pub(crate) fn hold(value: Value) -> Result<Value, Error> {
    weigh(&value, 1, &mut { VALUE_BYTES })?;
    Ok(value)
}

/// Passes on an operand, or an argument of a filter or a function, which may be made into text as a whole. Only a namespace was
/// not weighed when it was made.
pub(crate) fn operand(value: Value) -> Result<Value, Error> {
    if value.as_object().is_some_and(is_namespace) {
        bytes_of(&value)?;
    }
    Ok(value)
}

/// Merges maps (the last map with a key wins) or concatenates lists. The engine's own filter `chain` returns a value that
/// searches all of them on each access, and nested values of this kind never end.
pub(crate) fn chained(state: &mut State<'_, '_>, parts: &[Value]) -> Result<Value, Error> {
    step(state)?;
    let mut left = VALUE_BYTES;
    let are_all = |kind: ValueKind| parts.iter().all(|part| part.kind() == kind);
    let made = if are_all(ValueKind::Map) {
        let mut merged = BTreeMap::new();
        for (key, value) in parts.iter().filter_map(|part| part.as_object()?.try_iter_pairs()).flatten() {
            weigh(&key, 1, &mut left)?;
            weigh(&value, 1, &mut left)?;
            merged.insert(key, value);
        }
        Value::from(merged)
    } else {
        let mut items = Vec::new();
        for part in parts {
            add_items(part, &mut items, &mut left)?;
        }
        if are_all(ValueKind::Seq) { Value::from(items) } else { iterable(items) }
    };
    spend(state, VALUE_BYTES - left)?;
    Ok(made)
}

/// Passes on the first factor of a product.
pub(crate) fn factor(state: &mut State<'_, '_>, value: Value) -> Value {
    meter(state).factors.push(value.clone());
    value
}

/// Passes on the second factor, if the product is within the bounds.
pub(crate) fn times(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
    let first = meter(state).factors.pop().unwrap_or_default();
    growth::check_product(&first, &value)?;
    Ok(value)
}

/// Counts bytes that are about to be printed.
pub(crate) fn written(state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    step(state)?;
    let bytes = bytes_of(value)?;
    let is_plain = value.as_object().is_none() && matches!(state.auto_escape(), AutoEscape::None);
    spend(state, bytes * if is_plain { 1 } else { ESCAPED })
}

/// Bytes of a value, with everything in it.
///
/// # Errors
/// If it is larger than [`VALUE_BYTES`], nested too deeply, or contains a namespace.
pub fn bytes_of(value: &Value) -> Result<usize, Error> {
    let mut left = VALUE_BYTES;
    weigh(value, 0, &mut left)?;
    Ok(VALUE_BYTES - left)
}

/// Subtracts the bytes of a value, with everything in it, from the remaining ones.
///
/// # Errors
/// If too few bytes remain, the value is nested too deeply, or it contains a namespace.
fn weigh(value: &Value, depth: usize, left: &mut usize) -> Result<(), Error> {
    let own = ENTRY_BYTES + value.as_bytes().map_or(0, <[u8]>::len);
    *left = left.checked_sub(own).ok_or_else(Exceeded::large_value)?;
    let Some(object) = value.as_object() else { return Ok(()) };
    if depth == MAX_DEPTH {
        return Err(Exceeded::error(format!("values nested more than {MAX_DEPTH} deep")));
    }
    if depth > 0 && is_namespace(object) {
        return Err(Exceeded::error("a namespace in another value".to_owned()));
    }
    weigh_entries(object, depth + 1, left)
}

fn is_namespace(object: &DynObject) -> bool {
    object.type_name().ends_with("::Namespace")
}

fn weigh_entries(object: &DynObject, depth: usize, left: &mut usize) -> Result<(), Error> {
    match object.repr() {
        ObjectRepr::Map => {
            for (key, value) in object.try_iter_pairs().into_iter().flatten() {
                weigh(&key, depth, left)?;
                weigh(&value, depth, left)?;
            }
        }
        ObjectRepr::Seq | ObjectRepr::Iterable => {
            for value in object.try_iter().into_iter().flatten() {
                weigh(&value, depth, left)?;
            }
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use minijinja::Environment;
    use minijinja::syntax::SyntaxConfig;

    use super::*;
    use crate::{Program, bound};

    /// I1.
    #[test]
    fn a_rendering_that_takes_too_long_is_refused() {
        let mut environment = Environment::new();
        bound(&mut environment);
        environment.add_function("late", |state: &mut State<'_, '_>| {
            meter(state).until = Instant::now();
            ""
        });
        let render = |source: &str| {
            let program = Program::template("t", source, SyntaxConfig::default()).unwrap();
            program
                .render(&environment, Value::UNDEFINED)
                .map_err(|error| Exceeded::of(&error).unwrap().to_string())
        };
        assert_eq!(render("{{ 1 }}").as_deref(), Ok("1"));
        assert_eq!(render("{% if late() %}{% endif %}"), Err("more than 10 s".to_owned()));
    }
}
