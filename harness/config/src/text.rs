//! Templates in strings: compiling, the variables they name, and rendering.
//!
//! I1. Rendering is a function of text and values: no randomness, no files, and no clock but for
//! the bounds in time.
//! I2. An undefined variable is an error, never empty text. I3. A template that takes too many steps, or makes too much, is an error
//! with its place: `clawrl-template` sets the bounds.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::time::{Duration, Instant};

use clawrl_template::{Exceeded, Program, bound, bytes_of};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value};

use crate::bounds::{MAX_RENDER_TIME, MAX_RENDERED_BYTES};

/// Whether a string contains template syntax.
pub(crate) fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%") || text.contains("{#")
}

/// The expression of a string that is exactly one `{{ expression }}`; its value keeps its type.
pub(crate) fn only_expression(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    let inner = inner.strip_prefix('-').unwrap_or(inner);
    let inner = inner.strip_suffix('-').unwrap_or(inner).trim();
    (!inner.contains("{{") && !inner.contains("}}")).then_some(inner)
}

/// Error of a template, with the place in its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextError {
    pub(crate) message: String,
    pub(crate) help: String,
    /// Byte range in the template's text; empty if unknown.
    pub(crate) range: Range<usize>,
}

/// The template engine in the mode that suites use.
pub(crate) fn engine<'s>() -> Environment<'s> {
    let mut engine = Environment::new();
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    bound(&mut engine);
    // Errors need this setting to know their place.
    engine.set_debug(true);
    engine
}

/// Template syntax. Final newlines are kept, because checks compare them.
fn syntax() -> SyntaxConfig {
    let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
    syntax.expect("only custom delimiters can be wrong")
}

/// Compiled templates of the strings of a suite, kept for the next instance.
pub(crate) struct Renderer<'e, 's> {
    engine: &'e Environment<'s>,
    templates: HashMap<&'s str, Program<'s>>,
    expressions: HashMap<&'s str, Program<'s>>,
    /// Bytes of all that was rendered, and how long that took.
    rendered: usize,
    spent: Duration,
}

impl<'e, 's> Renderer<'e, 's> {
    pub(crate) fn new(engine: &'e Environment<'s>) -> Self {
        Self {
            engine,
            templates: HashMap::new(),
            expressions: HashMap::new(),
            rendered: 0,
            spent: Duration::ZERO,
        }
    }

    /// The variables that a string names and does not set itself.
    pub(crate) fn variables(&self, text: &str) -> Result<BTreeSet<String>, TextError> {
        if !is_template(text) {
            return Ok(BTreeSet::new());
        }
        let names = Program::names(text, syntax()).map_err(|error| explain(&error, 0))?;
        let globals: BTreeSet<&str> = self.engine.globals().map(|(name, _)| name).collect();
        Ok(names.into_iter().filter(|name| !globals.contains(name.as_str())).collect())
    }

    /// Renders to text.
    pub(crate) fn text(&mut self, text: &'s str, values: &Value) -> Result<String, TextError> {
        if !is_template(text) {
            return Ok(text.to_owned());
        }
        let (engine, began) = (self.engine, Instant::now());
        let rendered =
            self.template(text)?.render(engine, values.clone()).map_err(|error| explain(&error, 0))?;
        self.count(rendered.len(), began)?;
        Ok(rendered)
    }

    /// Counts what one rendering made, and the time since it began.
    fn count(&mut self, bytes: usize, began: Instant) -> Result<(), TextError> {
        self.rendered = self.rendered.saturating_add(bytes);
        self.spent += began.elapsed();
        let (message, help) = if self.rendered > MAX_RENDERED_BYTES {
            let message =
                format!("the templates of the suite make more than {} MiB", MAX_RENDERED_BYTES >> 20);
            (message, "ask for fewer instances, or make shorter texts")
        } else if self.spent > MAX_RENDER_TIME {
            let message =
                format!("the templates of the suite take more than {} s", MAX_RENDER_TIME.as_secs());
            (message, "ask for fewer instances, or let their loops run over less")
        } else {
            return Ok(());
        };
        Err(TextError { message, help: help.to_owned(), range: 0..0 })
    }

    /// Renders to a value: one expression keeps its type, anything else is text.
    pub(crate) fn value(&mut self, text: &'s str, values: &Value) -> Result<Value, TextError> {
        let Some(source) = only_expression(text) else {
            return self.text(text, values).map(Value::from);
        };
        let began = Instant::now();
        let shift = source.as_ptr() as usize - text.as_ptr() as usize;
        if !self.expressions.contains_key(source) {
            let compiled = Program::expression(source).map_err(|error| explain(&error, shift))?;
            self.expressions.insert(source, compiled);
        }
        let value = self.expressions[source].evaluate(self.engine, values.clone());
        let value = value.map_err(|error| explain(&error, shift))?;
        if value.is_undefined() {
            let message = "the expression has no value".to_owned();
            let help = "check the names and indexes in it against the variables of the task".to_owned();
            return Err(TextError { message, help, range: shift..shift + source.len() });
        }
        self.count(bytes_of(&value).map_err(|error| explain(&error, shift))?, began)?;
        Ok(value)
    }

    fn template(&mut self, text: &'s str) -> Result<&Program<'s>, TextError> {
        if !self.templates.contains_key(text) {
            let compiled =
                Program::template("template", text, syntax()).map_err(|error| explain(&error, 0))?;
            self.templates.insert(text, compiled);
        }
        Ok(&self.templates[text])
    }
}

fn explain(error: &Error, shift: usize) -> TextError {
    let detail = error.detail().unwrap_or_default();
    let reason = if detail.is_empty() { error.kind().to_string() } else { detail.to_owned() };
    let (message, help) = match error.kind() {
        _ if Exceeded::of(error).is_some() => (
            format!("the template takes too much: {reason}"),
            "let its loops run over less, and put no text or list together with itself: it doubles each time",
        ),
        ErrorKind::SyntaxError => (
            format!("the template does not parse: {reason}"),
            "close every `{{` with `}}` and every `{% if %}` with `{% endif %}`; to write two braces as text, say `{{ '{{' }}`",
        ),
        ErrorKind::UndefinedError => (
            format!("the template uses a value that is not there: {reason}"),
            "check the names and indexes in it against the variables of the task",
        ),
        ErrorKind::UnknownFilter | ErrorKind::UnknownTest | ErrorKind::UnknownFunction => (
            format!("the template engine does not know this: {reason}"),
            "the built-in filters of minijinja are there: `length`, `join(', ')`, `upper`, `sort`, `first`, `replace(a, b)`, ...",
        ),
        _ => (
            format!("the template cannot be rendered: {reason}"),
            "check the types: choices written as numbers are numbers, those in quotes are text; `| int` and `| string` convert",
        ),
    };
    let range = error.range().map_or(0..0, |range| range.start + shift..range.end + shift);
    TextError { message, help: help.to_owned(), range }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Value {
        Value::from_pairs([("n", Value::from(3)), ("word", Value::from("ab"))])
    }

    fn check(text: &str, expected: Result<&str, &str>) {
        let engine = engine();
        let got = Renderer::new(&engine).text(text, &values());
        let got = got.as_deref().map_err(|error| &text[error.range.clone()]);
        assert_eq!(got, expected, "{text}");
    }

    #[test]
    fn rendering_is_strict_and_keeps_newlines() {
        check("plain\n", Ok("plain\n"));
        check("{{ word }}\n", Ok("ab\n"));
        check("{{ n + 1 }}<&>", Ok("4<&>"));
        check("a {{ wrod }}", Err("wrod"));
        check("{{ n + word }}", Err("n + word"));
        check("{{ word | nope }}", Err("nope"));
    }

    /// I3.
    #[test]
    fn a_template_without_an_end_is_an_error_at_its_place() {
        let failed = |text: &str| {
            let engine = engine();
            let error = Renderer::new(&engine).text(text, &values()).unwrap_err();
            (error.message, text[error.range].to_owned())
        };
        let nested = "{% for i in range(90000) %}{% for j in range(99) %}{{ j }}{% endfor %}{% endfor %}x";
        let expected = "the template takes too much: more than 1000000 steps; those of nested loops multiply";
        assert_eq!(failed(nested).0, expected);
        let doubled =
            "{% set n = namespace(s=word) %}{% for i in range(40) %}{% set n.s = n.s ~ n.s %}{% endfor %}x";
        let (message, place) = failed(doubled);
        assert_eq!(message, "the template takes too much: a value of more than 16 MiB");
        assert_eq!(place, "n.s ~ n.s");
        assert_eq!(failed("{{ 'x' * 20000000 }}").0, message);
    }

    /// I3.
    #[test]
    fn instances_that_make_too_much_together_are_an_error() {
        let engine = engine();
        for (text, texts) in
            [("{{ 'x' * 15000000 }}x", 35), ("{{ 'x' * 15000000 }}", 35), ("{{ [n] * 600000 }}", 37)]
        {
            let mut renderer = Renderer::new(&engine);
            let errors = (0..texts + 2)
                .map_while(|_| renderer.value(text, &values()).err().map_or(Some(()), |_| None));
            assert_eq!(errors.count(), texts, "{text}");
            let error = renderer.value(text, &values()).unwrap_err();
            assert_eq!(error.message, "the templates of the suite make more than 512 MiB");
        }
    }

    #[test]
    fn one_expression_keeps_its_type() {
        let engine = engine();
        let mut renderer = Renderer::new(&engine);
        let mut check = |text, expected: Value| assert_eq!(renderer.value(text, &values()), Ok(expected));
        check("{{ n }}", Value::from(3));
        check(" {{- n * 2 -}} ", Value::from(6));
        check("{{ n }} ", Value::from(3));
        check("{{ n }}{{ n }}", Value::from("33"));
        check("x{{ n }}", Value::from("x3"));
    }

    #[test]
    fn named_variables_leave_out_what_the_engine_gives() {
        let engine = engine();
        let names = Renderer::new(&engine).variables("{% for i in range(n) %}{{ i }}{{ word }}{% endfor %}");
        assert_eq!(names, Ok(["n", "word"].map(str::to_owned).into()));
    }
}
