//! A template environment with limits: on output, and on filters with large results.

use minijinja::value::{Rest, ValueOrKwargs};
use minijinja::{Environment, Error, State, Value, escape_formatter, filters, tests};

use crate::growth;
use crate::meter::{chained, factor, hold, keep, keep_result, operand, step, times, written};
use crate::weighed::{FACTORS, HOLD, KEEP, OPERAND, RESULT};

/// Sets the limits. Filters added afterwards must limit their results themselves.
pub fn bound(environment: &mut Environment<'_>) {
    environment.set_formatter(|output, state, value| {
        written(state, value)?;
        escape_formatter(output, state, value)
    });
    environment.add_filter(KEEP, keep);
    environment.add_filter(RESULT, keep_result);
    environment.add_filter(HOLD, hold);
    environment.add_filter(OPERAND, operand);
    environment.add_filter(FACTORS[0], factor);
    environment.add_filter(FACTORS[1], times);
    let growing = [
        ("replace", Value::from_function(filters::replace)),
        ("join", Value::from_function(filters::join)),
        ("indent", Value::from_function(filters::indent)),
        ("batch", Value::from_function(filters::batch)),
        ("slice", Value::from_function(filters::slice)),
        ("format", Value::from_function(filters::format)),
        ("trim", Value::from_function(filters::trim)),
        ("pprint", Value::from_function(filters::pprint)),
    ];
    for (name, filter) in growing {
        let bounded_filter = move |state: &mut State<'_, '_>, arguments: Rest<ValueOrKwargs>| {
            let arguments = arguments.into_values();
            growth::check(name, &arguments)?;
            // Here too, since `map` calls filters itself.
            let result = filter.call(state, &arguments)?;
            keep_result(state, result)
        };
        environment.add_filter(name, bounded_filter);
    }
    environment.add_filter("chain", |state: &mut State<'_, '_>, parts: Rest<Value>| chained(state, &parts));
    // `debug` prints the engine's internal state, which is unlimited and not a function of the values.
    environment.remove_global("debug");
    // `select` calls it for each entry, and each time it may look through a long text.
    environment.add_test("in", |state: &mut State<'_, '_>, value: &Value, other: &Value| {
        step(state)?;
        tests::is_in(state, value, other)
    });
}

/// Methods of an environment, for [`Environment::set_unknown_method_callback`], that look at sizes first.
pub fn bounded_methods<F>(
    methods: F,
) -> impl Fn(&mut State<'_, '_>, &Value, &str, &[Value]) -> Result<Value, Error> + Send + Sync + 'static
where
    F: Fn(&mut State<'_, '_>, &Value, &str, &[Value]) -> Result<Value, Error> + Send + Sync + 'static,
{
    move |state, value, method, arguments| {
        let all: Vec<Value> = [value].into_iter().chain(arguments).cloned().collect();
        growth::check(method, &all)?;
        methods(state, value, method, arguments)
    }
}
