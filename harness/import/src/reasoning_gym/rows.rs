//! Turns data sets into families of questions.

use std::collections::BTreeMap;
use std::path::Path;

use clawrl_config::{ConfigError, Problem};
use serde_json::{Map, Value, json};

use super::datasets::{self, Marks};
use super::options::{ReasoningGymListing, ReasoningGymOptions};
use super::python::ask;
use crate::findings::Findings;
use crate::import::slug;
use crate::questions::{Family, Grading, Question};

pub(crate) struct Rows {
    pub(crate) families: Vec<Family>,
    pub(crate) records: Vec<Value>,
}

/// All data sets of the library, and whether each can be imported.
///
/// # Errors
/// A Python without the library.
pub(crate) fn listing(python: &Path) -> Result<Vec<ReasoningGymListing>, ConfigError> {
    let rows = ask(python, &json!({ "datasets": [], "size": 0, "seed": 0 }))?;
    let one = |(name, own): (String, bool)| match datasets::marks(&name, own) {
        Ok(marks) => ReasoningGymListing { name, words: datasets::words(marks).to_owned(), imported: true },
        Err(why) => ReasoningGymListing { name, words: why.to_owned(), imported: false },
    };
    Ok(known(&rows).into_iter().map(one).collect())
}

/// Names of the data sets, and whether they have a scorer of their own.
fn known(rows: &[Value]) -> BTreeMap<String, bool> {
    let known = rows.first().and_then(|row| row["known"].as_object());
    known.into_iter().flatten().map(|(name, own)| (name.clone(), own.as_bool().unwrap_or(true))).collect()
}

/// Generates the entries; problems go to the findings.
pub(crate) fn import_rows(options: &ReasoningGymOptions, findings: &mut Findings) -> Rows {
    let mut rows = Rows { families: Vec::new(), records: Vec::new() };
    let setting = |(key, value): &(String, String)| {
        (key.clone(), serde_json::from_str(value).unwrap_or_else(|_| json!(value)))
    };
    let wanted: Vec<Value> = options
        .datasets
        .iter()
        .map(|set| json!({ "name": set.name, "settings": set.settings.iter().map(setting).collect::<Map<_, _>>() }))
        .collect();
    let request = json!({ "datasets": wanted, "size": options.size, "seed": options.seed });
    let lines = match ask(&options.python, &request) {
        Ok(lines) => lines,
        Err(problem) => {
            findings.adopt(&problem.into());
            return rows;
        }
    };
    let known = known(&lines);
    let version = lines.first().and_then(|row| row["version"].as_str()).unwrap_or_default();
    for (at, set) in options.datasets.iter().enumerate() {
        let name = &set.name;
        let mut refuse = |message: String, help: &str| findings.adopt(&Problem::new(message, help).into());
        if options.datasets[..at].iter().any(|other| other.name == *name) {
            refuse(format!("the data set `{name}` is named twice"), "import it into two suites");
            continue;
        }
        let Some(&own) = known.get(name) else {
            let help = "`clawrl import reasoning-gym --list` lists them";
            refuse(format!("Reasoning Gym {version} has no data set `{name}`"), help);
            continue;
        };
        let marks = match datasets::marks(name, own) {
            Ok(marks) => marks,
            Err(why) => {
                let help = "`clawrl import reasoning-gym --list` lists those that can be imported";
                refuse(format!("the data set `{name}` cannot be represented: {why}"), help);
                continue;
            }
        };
        let mut questions = Vec::new();
        for row in lines.iter().filter(|row| row["dataset"].as_str() == Some(name)) {
            if let Some(error) = row["error"].as_str() {
                refuse(
                    format!("the data set `{name}` could not be generated: {error}"),
                    "correct its settings, or the size",
                );
                break;
            }
            match question(row, questions.len(), marks) {
                Ok(question) => questions.push(question),
                Err(why) => {
                    let help = "remove the data set, or choose another seed";
                    refuse(
                        format!("entry {} of `{name}` cannot be represented: {why}", questions.len()),
                        help,
                    );
                    break;
                }
            }
        }
        rows.records.push(json!({
            "dataset": name, "settings": wanted[at]["settings"], "size": questions.len(), "seed": options.seed,
            "reasoning_gym": version, "compared": datasets::words(marks),
        }));
        // Numbers with more digits than a float keeps are compared as digits.
        let (plain, patterns): (Vec<Question>, Vec<Question>) =
            questions.into_iter().partition(|question| !matches!(question.grading, Grading::Pattern(_)));
        let both = !plain.is_empty() && !patterns.is_empty();
        for (questions, end) in [(plain, ""), (patterns, "-pattern")] {
            if !questions.is_empty() {
                let name = format!("{}{}", slug(name), if both { end } else { "" });
                rows.families.push(Family { name, questions });
            }
        }
    }
    rows
}

fn question(row: &Value, at: usize, marks: Marks) -> Result<Question, String> {
    let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let (question, answer) = (text("question"), text("answer"));
    if question.trim().is_empty() || answer.is_empty() {
        return Err("its question or its answer is empty".to_owned());
    }
    if row["score"].as_f64() != Some(1.0) {
        return Err(format!("its own scorer gives its answer {} instead of 1", row["score"]));
    }
    let grading = match marks {
        Marks::Exact => Grading::Exact,
        Marks::Spaced => Grading::Pattern(spaced(&answer, "")),
        Marks::Folded => Grading::Pattern(spaced(&answer, "(?i)")),
        Marks::Number(tolerance) => match answer.replace(',', "").trim().parse::<f64>() {
            Ok(number) if number.is_finite() && answer.len() <= 15 => Grading::Number { tolerance },
            Ok(_) => Grading::Pattern(spaced(&answer, "")),
            Err(_) => return Err(format!("its answer `{answer}` is not a number")),
        },
    };
    let answer = if matches!(grading, Grading::Number { .. }) { answer.replace(',', "") } else { answer };
    Ok(Question { id: at.to_string(), question, answer, grading })
}

/// A text as a regular expression, in which all white space is equal.
fn spaced(answer: &str, flags: &str) -> String {
    let words: Vec<String> = answer.split_whitespace().map(escaped).collect();
    format!(r"{flags}^\s*{}\s*$", words.join(r"\s+"))
}

fn escaped(word: &str) -> String {
    let mut text = String::with_capacity(word.len());
    for character in word.chars() {
        if character.is_ascii_punctuation() {
            text.push('\\');
        }
        text.push(character);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answer: &str, marks: Marks, expected: Result<Grading, &str>) {
        let row = json!({ "question": "q", "answer": answer, "score": 1.0 });
        let found = question(&row, 0, marks).map(|question| question.grading);
        assert_eq!(found, expected.map_err(str::to_owned), "{answer}");
    }

    #[test]
    fn full_score_becomes_a_check() {
        check("a b", Marks::Exact, Ok(Grading::Exact));
        check("1 2\n3", Marks::Spaced, Ok(Grading::Pattern(r"^\s*1\s+2\s+3\s*$".to_owned())));
        check("Yes.", Marks::Folded, Ok(Grading::Pattern(r"(?i)^\s*Yes\.\s*$".to_owned())));
        check("1,024.5", Marks::Number(0.0), Ok(Grading::Number { tolerance: 0.0 }));
        check(
            "12345678901234567",
            Marks::Number(0.0),
            Ok(Grading::Pattern(r"^\s*12345678901234567\s*$".to_owned())),
        );
        check("x", Marks::Number(0.0), Err("its answer `x` is not a number"));
    }
}
