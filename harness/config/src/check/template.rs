//! Template variables: where their values come from, how many instances there are, which names are used.

use std::collections::BTreeSet;

use minijinja::Value;

use super::checker::Checker;
use super::row::{Instances, Row};
use crate::bounds;
use crate::draw::{self, Domain, Variable};
use crate::file::{ChoiceFile, InstancesFile, Located, TaskFile, Text};
use crate::problem::Problem;
use crate::source::Span;
use crate::suggest::{did_you_mean, listed};
use crate::text::{Renderer, engine, is_template};
use crate::value;

/// The template of a task, checked.
pub(super) struct Template {
    pub(super) variables: Vec<Variable>,
    pub(super) instances: Instances,
    pub(super) declared: Declared,
}

/// Every name that a task declares, with its place, in order; those under `let` are last.
pub(super) struct Declared {
    names: Vec<Text>,
    /// Number of chosen variables; the rest is derived.
    chosen: usize,
    /// Chosen names that another variable keeps away from.
    kept_away_from: BTreeSet<String>,
}

impl Checker {
    pub(super) fn template(&mut self, task: &TaskFile) -> Template {
        let mut declared =
            Declared { names: Vec::new(), chosen: task.template.0.len(), kept_away_from: BTreeSet::new() };
        let mut variables = Vec::new();
        let mut whole = true;
        for (name, choice) in &task.template.0 {
            self.declare(name, &mut declared);
            let domain = self.domain(choice);
            let distinct_from = self.distinct_from(name, choice, &variables, task);
            declared
                .kept_away_from
                .extend(distinct_from.iter().map(|&at: &usize| variables[at].name.clone()));
            // A variable without values stays in the list, so that its name is known.
            whole &= domain.is_some();
            let domain = domain.unwrap_or(Domain::OneOf(vec![Value::from("")]));
            let variable = Variable { name: name.value.clone(), domain, distinct_from };
            whole &= self.leaves_values(name, choice.span, &variable, &variables);
            variables.push(variable);
        }
        for (name, _) in &task.lets.0 {
            self.declare(name, &mut declared);
        }
        let instances = if whole { self.instances(task, &variables) } else { None };
        Template { variables, instances: instances.unwrap_or(Instances::All(0)), declared }
    }

    fn declare(&mut self, name: &Text, declared: &mut Declared) {
        self.named(name, value::variable_name);
        if let Some(first) = declared.names.iter().find(|known| known.value == name.value) {
            let problem = Problem::new(
                format!("`{}` is declared under `template` and under `let`", name.value),
                "give one of the two another name",
            )
            .at(&self.findings.source, name.span, "the second one")
            .and_at(first.span, "the first one");
            self.findings.push(problem);
        }
        declared.names.push(name.clone());
    }

    fn domain(&mut self, choice: &Located<ChoiceFile>) -> Option<Domain> {
        let fields = match &choice.value {
            ChoiceFile::Literal(entries) => {
                let values = self.entries(entries, choice.span);
                return (!values.is_empty()).then_some(Domain::OneOf(values));
            }
            ChoiceFile::Fields(fields) => fields,
        };
        match (&fields.from, &fields.range, &fields.sample) {
            (Some(name), None, None) => {
                let values = self.list(name)?;
                (!values.is_empty()).then_some(Domain::OneOf(values))
            }
            (None, Some(range), None) => {
                let (low, high) = self.pair("range", range)?;
                Some(Domain::Range(low, high))
            }
            (None, None, Some(sample)) => {
                let counts = self.pair("count", &sample.count);
                let entries = self.list(&sample.from)?;
                let (fewest, most) = counts?;
                if fewest < 1 {
                    let help = format!("write `count: [1, {}]`", most.max(1));
                    self.problem(sample.count.span, "a sample cannot be empty", "fewer than one", help);
                    return None;
                }
                let (fewest, most) = (usize::try_from(fewest).ok()?, usize::try_from(most).ok()?);
                if most > entries.len() {
                    if !entries.is_empty() {
                        let message = format!(
                            "`{}` has {} entries, {most} distinct ones cannot be drawn",
                            sample.from.value,
                            entries.len()
                        );
                        let help = format!(
                            "write `count: [{}, {}]`, or add entries",
                            fewest.min(entries.len()),
                            entries.len()
                        );
                        self.problem(sample.count.span, message, "more than there are", help);
                    }
                    return None;
                }
                Some(Domain::Sample { entries, fewest, most })
            }
            _ => {
                self.problem(
                    choice.span,
                    "the variable needs one source of values",
                    "none, or more than one",
                    "write one of `[a, b]`, `{ from: words }`, `{ range: [1, 9] }` and `{ sample: { from: words, count: [2, 3] } }`",
                );
                None
            }
        }
    }

    /// Two whole numbers, the first not above the second.
    fn pair(&mut self, key: &str, pair: &Located<Vec<Located<i64>>>) -> Option<(i64, i64)> {
        match pair.value.as_slice() {
            [low, high] if low.value <= high.value => Some((low.value, high.value)),
            [low, high] => {
                let message = format!("`{key}` ends below its start");
                let help =
                    format!("write `{key}: [{}, {}]`, the smaller number first", high.value, low.value);
                self.problem(low.span, message, "larger than the end", help);
                None
            }
            other => {
                let message = format!("`{key}` needs two numbers and has {}", other.len());
                let help = format!("write the smallest and the largest: `{key}: [2, 4]`");
                self.problem(pair.span, message, "two numbers belong here", help);
                None
            }
        }
    }

    /// Positions of the variables that are kept away from. They must be declared above.
    fn distinct_from(
        &mut self,
        name: &Text,
        choice: &ChoiceFile,
        above: &[Variable],
        task: &TaskFile,
    ) -> Vec<usize> {
        let ChoiceFile::Fields(fields) = choice else { return Vec::new() };
        let mut positions = Vec::new();
        for other in &fields.distinct_from {
            if let Some(position) = above.iter().position(|variable| variable.name == other.value) {
                positions.push(position);
                continue;
            }
            let known: Vec<&str> = above.iter().map(|variable| variable.name.as_str()).collect();
            let declared_below = task.template.0.iter().any(|(below, _)| below.value == other.value);
            let (message, help) = if other.value == name.value {
                (format!("`{}` cannot be distinct from itself", name.value), "remove it here".to_owned())
            } else if declared_below {
                let message = format!("`{}` is declared below `{}`", other.value, name.value);
                (
                    message,
                    format!("move `{}` above `{}`; values are chosen in order", other.value, name.value),
                )
            } else if known.is_empty() {
                let message = format!("there is no variable `{}` above", other.value);
                (message, "name a variable of this template that is declared above".to_owned())
            } else {
                let message = format!("there is no variable `{}` above", other.value);
                let near = did_you_mean(other, known.iter().copied());
                (message, format!("{near}variables above are {}", listed(known)))
            };
            self.problem(other.span, message, "not chosen yet", help);
        }
        positions
    }

    /// Whether a value remains for every choice of the earlier variables.
    fn leaves_values(&mut self, name: &Text, span: Span, variable: &Variable, above: &[Variable]) -> bool {
        let own: Vec<Value> = match &variable.domain {
            Domain::OneOf(values) => values.clone(),
            Domain::Sample { entries, .. } => entries.clone(),
            // The variables of one template cannot exhaust a longer range.
            Domain::Range(low, high) if high.abs_diff(*low) < 1_000 => {
                (*low..=*high).map(Value::from).collect()
            }
            Domain::Range(..) => return true,
        };
        let mut taken = 0;
        let mut reachable: BTreeSet<usize> = BTreeSet::new();
        for other in variable.distinct_from.iter().map(|&position| &above[position].domain) {
            let (shared, most): (Vec<usize>, usize) = match other {
                Domain::OneOf(values) => (positions_in(&own, values), 1),
                Domain::Sample { entries, most, .. } => (positions_in(&own, entries), *most),
                Domain::Range(low, high) => {
                    let inside = |value: &Value| value.as_i64().is_some_and(|n| (*low..=*high).contains(&n));
                    ((0..own.len()).filter(|&at| inside(&own[at])).collect(), 1)
                }
            };
            taken += most.min(shared.len());
            reachable.extend(shared);
        }
        let left = own.len() - taken.min(reachable.len());
        let needed = match &variable.domain {
            Domain::Sample { most, .. } => *most,
            Domain::OneOf(_) | Domain::Range(..) => 1,
        };
        if left >= needed {
            return true;
        }
        let message = format!(
            "`{}` may have {left} of {} values left after `distinct_from`, and needs {needed}",
            name.value,
            own.len()
        );
        let help = "add entries to its list, or keep away from fewer variables";
        self.problem(span, message, "cannot always be chosen", help);
        false
    }

    fn instances(&mut self, task: &TaskFile, variables: &[Variable]) -> Option<Instances> {
        let most = usize::try_from(bounds::MAX_INSTANCES).ok()?;
        match (variables.is_empty(), &task.instances) {
            (true, None) => Some(Instances::Plain),
            (true, Some(instances)) => {
                self.problem(
                    instances.span,
                    "`instances` without a `template` would make the same task several times",
                    "every one the same",
                    "remove it; `clawrl run --repeats N` runs a task with several seeds",
                );
                Some(Instances::Plain)
            }
            (false, None) => {
                if let Some(listed) = draw::all(variables, bounds::ALL_BY_DEFAULT) {
                    return Some(Instances::All(listed.len()));
                }
                let message = format!(
                    "the template has more than {} combinations, and `instances` does not say how many to make",
                    bounds::ALL_BY_DEFAULT
                );
                let help = "add `instances: 20`, or `instances: all`";
                self.problem(task.id.span, message, "in this task", help);
                None
            }
            (false, Some(Located { value: InstancesFile::All, span })) => {
                if let Some(listed) = draw::all(variables, most) {
                    return Some(Instances::All(listed.len()));
                }
                let message = format!("`all` would make more than {most} tasks");
                self.problem(*span, message, "too many", "say how many to draw: `instances: 1000`");
                None
            }
            (false, Some(Located { value: InstancesFile::Count(count), span })) => {
                if !(1..=bounds::MAX_INSTANCES).contains(count) {
                    let message = format!("`instances` cannot be {count}");
                    let help = format!("write a number from 1 to {most}, or `all`");
                    self.problem(*span, message, "out of bounds", help);
                    return None;
                }
                let count = usize::try_from(*count).ok()?;
                self.warn_of_repetition(variables, count, *span);
                Some(Instances::Drawn(count))
            }
        }
    }

    fn warn_of_repetition(&mut self, variables: &[Variable], count: usize, span: Span) {
        let Some(distinct) = draw::all(variables, count).map(|listed| listed.len()) else { return };
        if distinct < count {
            let finding = crate::problem::Finding {
                message: format!("the template has {distinct} combinations; {count} instances repeat some"),
                label: "more than there are",
                help: "write `instances: all`, or add choices".to_owned(),
            };
            self.findings.warn(span, finding);
        }
    }

    /// Names that strings use without a declaration, and declarations that no string uses.
    pub(super) fn names(&mut self, row: &Row, texts: &[(&str, Span)], declared: &Declared, complete: bool) {
        let engine = engine();
        let mut renderer = Renderer::new(&engine);
        let known: Vec<&str> = declared.names.iter().map(|name| name.value.as_str()).collect();
        let mut used: BTreeSet<String> = declared.kept_away_from.clone();
        let mut unknown: Vec<(String, Span)> = Vec::new();
        let mut complete = complete;
        for &(text, span) in texts {
            // Texts that do not parse are reported when instances are tried; their variables are unknown.
            let names = renderer.variables(text);
            complete &= names.is_ok();
            for name in names.unwrap_or_default() {
                if known.contains(&name.as_str()) {
                    used.insert(name);
                } else {
                    unknown.push((name, span));
                }
            }
        }
        for (position, (_, value)) in row.lets.iter().enumerate() {
            self.lets_in_order(&mut renderer, value, &declared.names[declared.chosen + position..]);
        }
        let any_unknown = !unknown.is_empty();
        for (name, span) in unknown {
            self.unknown_name(&name, span, &known);
        }
        if any_unknown || !complete {
            return;
        }
        for name in declared.names.iter().filter(|name| !used.contains(&name.value)) {
            let message = format!("the variable `{}` is used nowhere in the task", name.value);
            let help = format!("write `{{{{ {} }}}}` where it belongs, or remove it", name.value);
            self.problem(name.span, message, "never used", help);
        }
    }

    /// A derived variable may use those above it only.
    fn lets_in_order<'s>(&mut self, renderer: &mut Renderer<'_, 's>, value: &'s Text, not_yet: &[Text]) {
        for name in renderer.variables(value).unwrap_or_default() {
            if let Some(below) = not_yet.iter().find(|below| below.value == name) {
                let span = self.findings.source.locate_name(value.span, &name);
                let message = format!("`{name}` is not derived above this place");
                let help = format!("move `{}` up; values under `let` are derived in order", below.value);
                self.problem(span, message, "not known yet", help);
            }
        }
    }

    fn unknown_name(&mut self, name: &str, span: Span, known: &[&str]) {
        let span = self.findings.source.locate_name(span, name);
        let help = if self.lists.contains_key(name) {
            format!("`{name}` is a list; draw from it under `template:`, such as `entry: {{ from: {name} }}`")
        } else if known.is_empty() {
            "declare it under `template:` of this task, such as `word: [apple, river]`; to write two braces as text, say `{{ '{{' }}`".to_owned()
        } else {
            let near = did_you_mean(name, known.iter().copied());
            format!("{near}variables of this task are {}", listed(known.iter().copied()))
        };
        self.problem(span, format!("there is no variable `{name}` in this task"), "not declared", help);
    }

    /// Refuses a template at a place for plain text.
    pub(super) fn plain(&mut self, text: &Text, what: &str) -> bool {
        if !is_template(text) {
            return true;
        }
        let message = format!("{what} cannot be a template");
        let help = "write the path out: the suite's hash covers every file that it uses; contents given inline may be templates";
        self.problem(text.span, message, "a template here", help);
        false
    }
}

fn positions_in(own: &[Value], others: &[Value]) -> Vec<usize> {
    (0..own.len()).filter(|&at| others.contains(&own[at])).collect()
}
