//! A template or an expression, compiled, and its rendering.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::machinery::ast::{Macro, Spanned, Stmt};
use minijinja::machinery::{
    CodeGenerator, Instruction, Instructions, Span, eval, make_string_output, parse, parse_expr,
};
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value};

use crate::{nesting, weighed};

/// A compiled template or expression. Render it with an environment whose limits were set by [`bound`](crate::bound).
pub struct Program<'s> {
    code: Instructions<'s>,
}

impl<'s> Program<'s> {
    /// Compiles a template; `name` is its name in errors.
    ///
    /// # Errors
    /// If it does not parse, or exceeds the limits of compilation.
    pub fn template(name: &'s str, source: &'s str, syntax: SyntaxConfig) -> Result<Self, Error> {
        nesting::check(source, false, syntax.clone())?;
        let parsed = parse(source, name, syntax)?;
        let mut generator = CodeGenerator::new(name, source);
        generator.compile_stmt(&weighed::statement(&parsed));
        Ok(Self { code: generator.finish().0 })
    }

    /// The names that a template uses but does not set, including names of functions.
    ///
    /// # Errors
    /// The errors of [`Program::template`].
    pub fn names(source: &str, syntax: SyntaxConfig) -> Result<BTreeSet<String>, Error> {
        nesting::check(source, false, syntax.clone())?;
        let parsed = parse(source, "names", syntax)?;
        // A macro captures the names in its body; its declaration lists them after the body.
        let body = vec![weighed::statement(&parsed)];
        let whole = Macro { name: "whole", args: Vec::new(), defaults: Vec::new(), body };
        let mut generator = CodeGenerator::new("names", source);
        generator.compile_stmt(&Stmt::Macro(Spanned::new(whole, Span::default())));
        let (code, _) = generator.finish();
        let Some(&Instruction::Jump(end)) = code.get(0) else { return Ok(BTreeSet::new()) };
        let named = |instruction: &Instruction<'_>| match instruction {
            Instruction::Enclose(name) => Some((*name).to_owned()),
            Instruction::BuildMacro(_, _, flags) if *flags != 0 => Some("caller".to_owned()),
            _ => None,
        };
        Ok((end..).map_while(|at| code.get(at)).filter_map(named).collect())
    }

    /// Compiles one expression.
    ///
    /// # Errors
    /// The errors of [`Program::template`].
    pub fn expression(source: &'s str) -> Result<Self, Error> {
        nesting::check(source, true, SyntaxConfig::default())?;
        let parsed = parse_expr(source)?;
        let mut generator = CodeGenerator::new("<expression>", source);
        generator.compile_expr(&weighed::expression(&parsed));
        Ok(Self { code: generator.finish().0 })
    }

    /// Renders a template.
    ///
    /// # Errors
    /// Errors of the engine, and [`Exceeded`](crate::Exceeded) if it exceeds the limits.
    pub fn render<'e>(&self, environment: &'e Environment<'e>, values: Value) -> Result<String, Error>
    where
        's: 'e,
    {
        let mut text = String::new();
        self.run(environment, values, &mut text)?;
        Ok(text)
    }

    /// The value of an expression.
    ///
    /// # Errors
    /// The errors of [`Program::render`].
    pub fn evaluate<'e>(&self, environment: &'e Environment<'e>, values: Value) -> Result<Value, Error>
    where
        's: 'e,
    {
        let value = self.run(environment, values, &mut String::new())?;
        value.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "a template has no value"))
    }

    fn run<'e>(
        &self,
        environment: &'e Environment<'e>,
        values: Value,
        text: &mut String,
    ) -> Result<Option<Value>, Error>
    where
        's: 'e,
    {
        let code: &Instructions<'e> = &self.code;
        let blocks = BTreeMap::new();
        let mut output = make_string_output(text);
        let (value, _) = eval(environment, code, values, &blocks, &mut output, AutoEscape::None)?;
        Ok(value)
    }
}

impl std::fmt::Debug for Program<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("source", &self.code.source()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
