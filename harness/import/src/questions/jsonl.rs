//! Imports JSONL files of questions, as families of a suite.
//!
//! J1. Ids are unique within a file. J2. A row that cannot be represented refuses the import at its place, or is
//! skipped and listed.

use std::collections::HashMap;
use std::path::Path;

use clawrl_config::{Problem, Span};
use serde_json::{Value, json};

use super::answer::Answer;
use super::chosen::RowSelector;
use super::keys::{self, BadRow, Keys};
use super::lines::{Line, Lines};
use super::options::JsonlOptions;
use super::suite::{Family, Grading, Question};
use crate::findings::Findings;
use crate::import::slug;

/// Problems of rows that are reported one by one.
const MAX_REPORTED: usize = 12;

/// The families of the files, the skipped rows, and the entries of both in the import record.
pub(crate) struct Rows {
    pub(crate) families: Vec<Family>,
    pub(crate) notes: Vec<String>,
    pub(crate) records: Vec<Value>,
}

/// Reads the files; problems go to the findings.
pub(crate) fn import_rows(options: &JsonlOptions, findings: &mut Findings) -> Rows {
    let mut rows = Rows { families: Vec::new(), notes: Vec::new(), records: Vec::new() };
    let files: Vec<(&Path, Lines)> = options
        .files
        .iter()
        .filter_map(|path| Some((path.as_path(), Lines::read(path, findings)?)))
        .collect();
    let total = files.iter().map(|(_, lines)| lines.lines.len()).sum();
    let mut problems = Problems { reported: 0, unreported: 0 };
    let mut chosen = RowSelector::new(options.choice, total);
    let mut names: Vec<String> = Vec::new();
    for (path, lines) in &files {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = slug(&stem);
        if names.contains(&name) {
            let help = "rename one of the files, or import them into two suites";
            findings.refuse_path(
                path,
                format!("its tasks would be named `{name}`, like those of another file"),
                help,
            );
            continue;
        }
        names.push(name.clone());
        file(options, &name, lines, &mut chosen, &mut problems, &mut rows, findings);
    }
    if problems.unreported > 0 {
        let message = format!("{} more rows cannot be imported", problems.unreported);
        let help = "skip such rows with `--skip-unrepresentable`, which lists them";
        findings.adopt(&Problem::new(message, help).into());
    }
    if findings.count() == 0 && rows.families.is_empty() {
        findings.adopt(&Problem::new("there is no row to import", "name files with rows").into());
    }
    rows
}

/// Number of reported problems of rows, and of further ones.
struct Problems {
    reported: usize,
    unreported: usize,
}

fn file(
    options: &JsonlOptions,
    name: &str,
    lines: &Lines,
    chosen: &mut RowSelector,
    problems: &mut Problems,
    rows: &mut Rows,
    findings: &mut Findings,
) {
    if lines.lines.is_empty() {
        rows.notes.push(format!("{name}: the file has no rows"));
        return;
    }
    let (question, answer) = (options.question_key.as_deref(), options.answer_key.as_deref());
    let readable = lines.lines.iter().find_map(|line| Some((line, line.row.as_ref().ok()?)));
    let keys = match readable
        .map(|(line, row)| (line, Keys::find(row, question, answer, options.id_key.as_deref())))
    {
        Some((_, Ok(keys))) => keys,
        Some((line, Err(bad))) => return refuse(lines, line, bad, findings),
        // No row needs them.
        None => Keys::default(),
    };
    let mut ids: HashMap<String, Span> = HashMap::new();
    let mut kinds: [Vec<Question>; 3] = Default::default();
    let mut skipped = Vec::new();
    for line in &lines.lines {
        if !chosen.takes() {
            continue;
        }
        let read = read_row(line, &keys, options.tolerance);
        let question = match read {
            Ok(question) => question,
            Err(bad) if options.skip_unrepresentable => {
                skipped.push(json!({ "line": line.number, "reason": bad.message }));
                continue;
            }
            Err(bad) => {
                if problems.reported < MAX_REPORTED {
                    problems.reported += 1;
                    refuse(lines, line, bad, findings);
                } else {
                    problems.unreported += 1;
                }
                continue;
            }
        };
        // J1.
        if ids.insert(question.id.clone(), line.span).is_some() {
            if problems.reported < MAX_REPORTED {
                problems.reported += 1;
                let key = keys.id.as_deref().unwrap_or_default();
                let message = format!("two rows have the id `{}`", question.id);
                let help = "remove one of them, or name another key with `--id-key`";
                refuse(lines, line, BadRow::new(key, message, help), findings);
            } else {
                problems.unreported += 1;
            }
            continue;
        }
        let kind = match question.grading {
            Grading::Number { .. } => 0,
            Grading::Pattern(_) => 1,
            Grading::Text | Grading::Exact => 2,
        };
        kinds[kind].push(question);
    }
    let counts: Vec<usize> = kinds.iter().map(Vec::len).collect();
    let several = counts.iter().filter(|count| **count > 0).count() > 1;
    for (questions, word) in kinds.into_iter().zip(["number", "pattern", "text"]) {
        if !questions.is_empty() {
            let name = if several { format!("{name}-{word}") } else { name.to_owned() };
            rows.families.push(Family { name, questions });
        }
    }
    let mut by_reason: Vec<(String, usize)> = Vec::new();
    for row in &skipped {
        let reason = row["reason"].as_str().unwrap_or_default();
        match by_reason.iter_mut().find(|(known, _)| known == reason) {
            Some((_, count)) => *count += 1,
            None => by_reason.push((reason.to_owned(), 1)),
        }
    }
    for (reason, count) in by_reason {
        rows.notes.push(format!("{name}: {count} rows are skipped: {reason}"));
    }
    let id = keys.id.as_deref().unwrap_or("(line)");
    rows.records.push(json!({
        "file": name,
        "keys": { "question": keys.question, "answer": keys.answer, "id": id },
        "rows": counts.iter().sum::<usize>(),
        "left_out": skipped,
    }));
}

fn refuse(lines: &Lines, line: &Line, bad: BadRow, findings: &mut Findings) {
    findings.refuse(&lines.source, lines.place(line, &bad.key), "in this row", bad.message, bad.help);
}

fn read_row(line: &Line, keys: &Keys, tolerance: Option<f64>) -> Result<Question, BadRow> {
    let row = line.row.as_ref().map_err(Clone::clone)?;
    let question = keys::question(row, &keys.question)?;
    let written = keys::written_answer(row, &keys.answer)?;
    let id = match &keys.id {
        Some(key) => keys::id(row, key)?,
        None => line.number.to_string(),
    };
    let answer = Answer::read(&written).map_err(|reason| {
        let help =
            "skip such rows with `--skip-unrepresentable`, or write the answer as a number or as words";
        BadRow::new(&keys.answer, reason, help)
    })?;
    let (answer, grading) = match answer {
        Answer::Number { text, tolerance: own } => {
            (text, Grading::Number { tolerance: tolerance.unwrap_or(own) })
        }
        Answer::Pattern { text, regex } => (text, Grading::Pattern(regex)),
        Answer::Text(text) => (text, Grading::Text),
    };
    Ok(Question { id, question, answer, grading })
}
