//! Candidate faults of a package, and the order in which they are tried.

use std::collections::BTreeMap;

use clawrl_config::Problem;
use serde_json::{Map, Value, json};

use super::distribution::Distribution;
use super::options::SynthOptions;
use crate::python::ask;

const FAULTS: &str = include_str!("faults.py");

/// A candidate fault: an edit of one file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Candidate {
    pub(super) path: String,
    pub(super) kind: String,
    /// The bytes that are replaced.
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) new: String,
    /// Qualified name of the function within its module, and its docstring.
    pub(super) name: String,
    pub(super) doc: String,
    pub(super) order: f64,
}

/// All candidate faults in the order of their trial: round-robin over the kinds, and at random within a kind, so that
/// rare kinds are not lost.
///
/// # Errors
/// Python cannot be started, or fails.
pub(super) fn candidates(
    distribution: &Distribution,
    options: &SynthOptions,
) -> Result<Vec<Candidate>, Problem> {
    let files: Map<String, Value> =
        distribution.sources().map(|(path, text)| (path.to_owned(), Value::from(text))).collect();
    let rows = ask(&options.python, FAULTS, &json!({ "seed": options.seed, "files": files }))?;
    Ok(in_turn(rows.iter().filter_map(candidate).collect()))
}

fn candidate(row: &Value) -> Option<Candidate> {
    let text = |key: &str| row[key].as_str().map(str::to_owned);
    let whole = |key: &str| row[key].as_u64().and_then(|number| usize::try_from(number).ok());
    Some(Candidate {
        path: text("path")?,
        kind: text("kind")?,
        start: whole("start")?,
        end: whole("end")?,
        new: text("new")?,
        name: text("name")?,
        doc: text("doc")?,
        order: row["order"].as_f64()?,
    })
}

fn in_turn(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let mut kinds: BTreeMap<String, Vec<Candidate>> = BTreeMap::new();
    for candidate in candidates {
        kinds.entry(candidate.kind.clone()).or_default().push(candidate);
    }
    let mut ranked: Vec<(usize, Candidate)> = Vec::new();
    for mut of_kind in kinds.into_values() {
        of_kind.sort_by(|a, b| a.order.total_cmp(&b.order));
        ranked.extend(of_kind.into_iter().enumerate());
    }
    // Stable: within a round, kinds are sorted by name.
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, candidate)| candidate).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::swe_synth) fn fault(kind: &str, order: f64) -> Candidate {
        Candidate {
            path: "pen/nib.py".to_owned(),
            kind: kind.to_owned(),
            start: 0,
            end: 1,
            new: "x".to_owned(),
            name: "Nib.width".to_owned(),
            doc: "Width of the nib.\n\nIn millimetres.".to_owned(),
            order,
        }
    }

    #[test]
    fn fault_kinds_alternate() {
        let drawn = vec![fault("a", 0.5), fault("a", 0.1), fault("a", 0.9), fault("b", 0.7), fault("b", 0.2)];
        let found: Vec<_> = in_turn(drawn).into_iter().map(|fault| (fault.kind, fault.order)).collect();
        let expected = [("a", 0.1), ("b", 0.2), ("a", 0.5), ("b", 0.7), ("a", 0.9)];
        assert_eq!(found, expected.map(|(kind, order)| (kind.to_owned(), order)));
    }
}
