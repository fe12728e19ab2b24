//! The instances of a row, and trying a few of them for the problems that they show.

use minijinja::Value;

use super::filler::Filler;
use crate::draw::{self, Assignment};
use crate::problem::Findings;
use crate::row::{Instances, Row};
use crate::text::{engine, is_template};

/// Instances of each template that are tried when a suite is checked.
const TRIED_INSTANCES: usize = 8;

/// Seed of the instances that are tried.
const TRIED_SEED: u64 = 0;

/// The values of a row's instances, in order of index; one empty assignment without a template.
pub(crate) fn assignments(row: &Row, seed: u64) -> Vec<Assignment> {
    match row.instances {
        Instances::Plain => vec![Vec::new()],
        Instances::All(count) => draw::all(&row.variables, count).unwrap_or_default(),
        Instances::Drawn(count) => draw::some(&row.variables, count, seed),
    }
}

/// Makes a few instances for the problems that they show. Without any, because the template has a problem,
/// only what is no template is looked at.
pub(crate) fn try_instances(suite: &str, row: &Row, findings: &mut Findings) {
    let engine = engine();
    let mut filler = Filler::new(&engine, findings);
    filler.skip_unknown_names(row);
    let assignments = match row.instances {
        Instances::Drawn(count) => draw::some(&row.variables, count.min(TRIED_INSTANCES), TRIED_SEED),
        Instances::Plain | Instances::All(_) => assignments(row, TRIED_SEED),
    };
    if assignments.is_empty() {
        filler.skip_templates(row);
        filler.task(suite, row, None, &Value::default());
    }
    let step = assignments.len().div_ceil(TRIED_INSTANCES).max(1);
    for assignment in assignments.iter().step_by(step) {
        match filler.values(row, assignment) {
            Some(values) => filler.task(suite, row, None, &values),
            None => {
                filler.skip_templates(row);
                filler.task(suite, row, None, &Value::default())
            }
        };
    }
}

impl<'s> Filler<'_, '_, 's> {
    /// Leaves out strings that name what is not declared, or not yet: those are reported by name.
    fn skip_unknown_names(&mut self, row: &'s Row) {
        let chosen: Vec<&str> = row.variables.iter().map(|variable| variable.name.as_str()).collect();
        let derived: Vec<&str> = row.lets.iter().map(|(name, _)| name.as_str()).collect();
        row.each_text(&mut |text, span| {
            let above = row.lets.iter().position(|(_, value)| value.span == span).unwrap_or(derived.len());
            let known = |name: &str| chosen.contains(&name) || derived[..above].contains(&name);
            if self.renderer.variables(text).unwrap_or_default().iter().any(|name| !known(name)) {
                self.skipped.insert(span);
            }
        });
    }

    /// Leaves out every string that needs values.
    fn skip_templates(&mut self, row: &'s Row) {
        row.each_text(&mut |text, span| {
            if is_template(text) {
                self.skipped.insert(span);
            }
        });
    }
}
