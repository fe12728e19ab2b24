//! Diagnostics about files, for their authors.
//!
//! I1. A [`ConfigError`] holds at least one problem. I2. The help of every problem describes the correction.
//! I3. A problem of a file has a file, line, column and labelled span, shown with its source line unless the line is too
//! long to read.

use std::fmt;
use std::sync::Arc;

use miette::{Diagnostic, LabeledSpan, Severity, SourceCode};
use serde::Serialize;

use crate::source::{Source, Span};

/// One mistake, its place, and the correction.
#[derive(Debug, Clone)]
pub struct Problem {
    message: String,
    help: String,
    severity: Severity,
    source: Option<Arc<Source>>,
    /// The first is the place of the problem.
    labels: Vec<(Span, String)>,
}

/// A problem as data, for `--json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProblemReport {
    /// Description of the problem.
    pub message: String,
    /// Description of the correction.
    pub help: String,
    /// `error` or `warning`.
    pub severity: &'static str,
    /// The file as the user named it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// From 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// From 1, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
}

impl Problem {
    /// A problem of no particular place: arguments, or a file that cannot be read at all.
    #[must_use]
    pub fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: help.into(),
            severity: Severity::Error,
            source: None,
            labels: Vec::new(),
        }
    }

    /// Points at a place.
    #[must_use]
    pub fn at(mut self, source: &Arc<Source>, span: Span, label: impl Into<String>) -> Self {
        self.source = Some(Arc::clone(source));
        self.labels.push((source.visible(span), label.into()));
        self
    }

    /// Points at a second place of the same file.
    pub(crate) fn and_at(mut self, span: Span, label: impl Into<String>) -> Self {
        self.labels.push((span, label.into()));
        self
    }

    pub(crate) fn into_warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }

    /// Description of the problem, in one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Description of the correction.
    #[must_use]
    pub fn help_text(&self) -> &str {
        &self.help
    }

    /// File as the user named it, line and column from 1; `None` for problems of arguments.
    #[must_use]
    pub fn location(&self) -> Option<(&str, usize, usize)> {
        let source = self.source.as_deref()?;
        let (line, column) = source.line_column(self.labels.first()?.0);
        Some((&source.shown, line, column))
    }

    /// The problem as data.
    #[must_use]
    pub fn report(&self) -> ProblemReport {
        let location = self.location();
        ProblemReport {
            message: self.message.clone(),
            help: self.help.clone(),
            severity: if self.severity == Severity::Warning { "warning" } else { "error" },
            file: location.map(|(file, _, _)| file.to_owned()),
            line: location.map(|(_, line, _)| line),
            column: location.map(|(_, _, column)| column),
        }
    }

    /// Whether both have the same message and span.
    fn is_same(&self, other: &Self) -> bool {
        let place = |problem: &Self| problem.labels.first().map(|(span, _)| *span);
        self.message == other.message && place(self) == place(other)
    }

    fn sort_key(&self) -> (Option<String>, usize) {
        let file = self.source.as_ref().map(|source| source.shown.clone());
        (file, self.labels.first().map_or(0, |(span, _)| span.start))
    }
}

impl Problem {
    /// The file, where its lines at the places can be shown (I3).
    fn shown_source(&self) -> Option<&Source> {
        self.source.as_deref().filter(|source| !source.is_long_at(self.labels.iter().map(|(span, _)| *span)))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (None, Some((file, line, column))) = (self.shown_source(), self.location()) {
            write!(f, "`{file}:{line}:{column}`: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

impl Diagnostic for Problem {
    fn severity(&self) -> Option<Severity> {
        Some(self.severity)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(&self.help))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.shown_source().map(|source| source.named() as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        if self.labels.is_empty() || self.shown_source().is_none() {
            return None;
        }
        Some(Box::new(self.labels.iter().enumerate().map(|(index, (span, label))| {
            let label = Some(label.clone()).filter(|label| !label.is_empty());
            if index == 0 {
                LabeledSpan::new_primary_with_span(label, *span)
            } else {
                LabeledSpan::new_with_span(label, *span)
            }
        })))
    }
}

/// Everything that is wrong with suites or with the arguments of a plan, in order of place.
#[derive(Debug, Clone)]
pub struct ConfigError {
    /// Never empty (I1).
    problems: Vec<Problem>,
}

impl ConfigError {
    /// Sorts by place. `None` without problems.
    #[must_use]
    pub fn from_problems(mut problems: Vec<Problem>) -> Option<Self> {
        problems.sort_by_key(Problem::sort_key);
        (!problems.is_empty()).then_some(Self { problems })
    }

    /// The problems, at least one.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    fn only(&self) -> Option<&Problem> {
        match self.problems.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem] }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.only() {
            Some(problem) => problem.fmt(f),
            None => {
                write!(f, "{} problems", self.problems.len())?;
                let mut files: Vec<_> =
                    self.problems.iter().map(|problem| problem.location().map(|(file, _, _)| file)).collect();
                files.dedup();
                match files.as_slice() {
                    [Some(file)] => write!(f, " in {file}"),
                    _ => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for ConfigError {}

impl Diagnostic for ConfigError {
    fn severity(&self) -> Option<Severity> {
        Some(Severity::Error)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.only().and_then(Diagnostic::help)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.only().and_then(Diagnostic::source_code)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.only().and_then(Diagnostic::labels)
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        if self.only().is_some() {
            return None;
        }
        Some(Box::new(self.problems.iter().map(|problem| problem as &dyn Diagnostic)))
    }
}

/// Collects the problems and warnings of one file.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) source: Arc<Source>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

/// The parts of a problem at a place, in the order in which they are read.
pub(crate) struct Finding<'a> {
    pub(crate) message: String,
    pub(crate) label: &'a str,
    pub(crate) help: String,
}

impl Findings {
    pub(crate) fn new(source: &Arc<Source>) -> Self {
        Self { source: Arc::clone(source), problems: Vec::new(), warnings: Vec::new() }
    }

    /// Adds a problem at a place.
    pub(crate) fn add(&mut self, span: Span, finding: Finding<'_>) {
        let problem = Problem::new(finding.message, finding.help).at(&self.source, span, finding.label);
        self.push(problem);
    }

    /// Adds a problem, unless the same one was found before: instances of a template repeat theirs.
    pub(crate) fn push(&mut self, problem: Problem) {
        if !self.problems.iter().any(|known| known.is_same(&problem)) {
            self.problems.push(problem);
        }
    }

    /// Adds a problem of a place that has none yet: one wrong value of a template stands for all.
    pub(crate) fn add_first(&mut self, span: Span, finding: Finding<'_>) {
        let span = self.source.visible(span);
        if !self.problems.iter().any(|known| known.labels.first().is_some_and(|(place, _)| *place == span)) {
            self.add(span, finding);
        }
    }

    /// Adds a warning, unless the same one was found before: tasks repeat those of defaults.
    pub(crate) fn warn(&mut self, span: Span, finding: Finding<'_>) {
        let problem =
            Problem::new(finding.message, finding.help).at(&self.source, span, finding.label).into_warning();
        if !self.warnings.iter().any(|known| known.is_same(&problem)) {
            self.warnings.push(problem);
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.problems.len()
    }

    /// Returns the warnings if there are no problems.
    pub(crate) fn finish(self) -> Result<Vec<Problem>, ConfigError> {
        match ConfigError::from_problems(self.problems) {
            Some(error) => Err(error),
            None => Ok(self.warnings),
        }
    }
}
