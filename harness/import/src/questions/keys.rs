//! Finds the keys of a row that hold its question, answer and id, and reads them.
//!
//! K1. If several keys qualify, none is chosen: the user has to name one.

use serde_json::{Map, Value};

use super::lines::at;

const QUESTIONS: [&str; 6] = ["question", "problem", "prompt", "query", "instruction", "input"];
const ANSWERS: [&str; 7] = [
    "answer",
    "final_answer",
    "expected_answer",
    "ground_truth",
    "reward_model.ground_truth",
    "target",
    "output",
];
const IDS: [&str; 6] = ["id", "unique_id", "question_id", "problem_id", "idx", "extra_info.index"];

/// The wrapper that DAPO-Math's training code puts around a problem. Here an answer is submitted, not written.
const DAPO_BEFORE: &str = "Solve the following math problem step by step. The last line of your response should be of the form Answer: $Answer (without quotes) where $Answer is the answer to the problem.\n\n";
const DAPO_AFTER: &str = "\n\nRemember to put your answer on its own line after \"Answer:\".";

/// The keys of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) question: String,
    pub(super) answer: String,
    pub(super) id: Option<String>,
}

/// A problem, and the advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadRow {
    /// The key at fault; the whole row if empty.
    pub(crate) key: String,
    pub(crate) message: String,
    pub(crate) help: String,
}

impl BadRow {
    pub(crate) fn new(key: &str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { key: key.to_owned(), message: message.into(), help: help.into() }
    }
}

impl Keys {
    /// Finds the keys that the user did not name (K1).
    pub(super) fn find(
        row: &Map<String, Value>,
        question: Option<&str>,
        answer: Option<&str>,
        id: Option<&str>,
    ) -> Result<Self, BadRow> {
        let question = one(row, question, &QUESTIONS, "question", "--question-key");
        let answer = one(row, answer, &ANSWERS, "answer", "--answer-key");
        let id = match id {
            Some(id) => Some(id.to_owned()),
            None => IDS.iter().find(|key| at(row, key).is_some()).map(|key| (*key).to_owned()),
        };
        Ok(Self { question: question?, answer: answer?, id })
    }
}

fn one(
    row: &Map<String, Value>,
    given: Option<&str>,
    known: &[&str],
    what: &str,
    option: &str,
) -> Result<String, BadRow> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let found: Vec<&str> = known.iter().copied().filter(|key| at(row, key).is_some()).collect();
    match found.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => {
            let keys: Vec<&str> = row.keys().map(String::as_str).collect();
            let message = format!("the key that holds the {what} is unknown");
            Err(BadRow::new(
                "",
                message,
                format!("name it with `{option} KEY`; the row has {}", keys.join(", ")),
            ))
        }
        [first, ..] => {
            let message = format!("the {what} could be under {}", found.join(" or "));
            Err(BadRow::new(first, message, format!("choose with `{option} {first}`")))
        }
    }
}

/// The question: a text, or the messages of a chat up to its first user message.
pub(super) fn question(row: &Map<String, Value>, key: &str) -> Result<String, BadRow> {
    let help = "correct the row, or name another key with `--question-key`";
    let text = match at(row, key) {
        None => return Err(BadRow::new(key, format!("the row has no `{key}`"), help)),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(messages)) => conversation(messages).ok_or_else(|| {
            BadRow::new(
                key,
                format!(
                    "`{key}` is not a question: it must be a list of messages with one user message, the last"
                ),
                help,
            )
        })?,
        Some(_) => {
            return Err(BadRow::new(key, format!("`{key}` is neither a text nor a list of messages"), help));
        }
    };
    let text = text.strip_prefix(DAPO_BEFORE).and_then(|text| text.strip_suffix(DAPO_AFTER)).unwrap_or(&text);
    if text.trim().is_empty() {
        return Err(BadRow::new(key, "the question is empty", help));
    }
    if text.contains('\0') {
        return Err(BadRow::new(key, "the question holds a NUL character", "save it as text"));
    }
    Ok(text.trim().to_owned())
}

/// The text of a system message precedes the user's.
pub(crate) fn conversation(messages: &[Value]) -> Option<String> {
    let content = |message: &Value, role: &str| {
        let content = message.get("content")?.as_str()?;
        (message.get("role")?.as_str()? == role).then(|| content.trim().to_owned())
    };
    match messages {
        [user] => content(user, "user"),
        [system, user] => Some(format!("{}\n\n{}", content(system, "system")?, content(user, "user")?)),
        _ => None,
    }
}

/// The answer as written: a text or a number, or a list with one of them.
pub(super) fn written_answer(row: &Map<String, Value>, key: &str) -> Result<String, BadRow> {
    let help = "correct the row, or name another key with `--answer-key`";
    let several = || {
        let message = format!("`{key}` has several answers, and one of them may or may not be enough");
        BadRow::new(key, message, "keep one, or skip such rows with `--skip-unrepresentable`")
    };
    match at(row, key) {
        None => Err(BadRow::new(key, format!("the row has no `{key}`"), help)),
        // Whole numbers are often written as floats.
        Some(Value::Number(number)) => {
            let text = number.to_string();
            Ok(text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned))
        }
        // Some sets store a list as a text.
        Some(Value::String(text)) => match serde_json::from_str::<Vec<Value>>(text).ok().as_deref() {
            Some([Value::String(one)]) => Ok(one.clone()),
            Some([Value::String(_), _, ..]) => Err(several()),
            _ => Ok(text.clone()),
        },
        Some(Value::Array(answers)) => match answers.as_slice() {
            [Value::String(one)] => Ok(one.clone()),
            [Value::Number(one)] => Ok(one.to_string()),
            _ => Err(several()),
        },
        Some(_) => Err(BadRow::new(key, format!("`{key}` is neither a text nor a number"), help)),
    }
}

/// The row's id, if it has one.
pub(super) fn id(row: &Map<String, Value>, key: &str) -> Result<String, BadRow> {
    match at(row, key) {
        Some(Value::String(id)) if !id.is_empty() => Ok(id.clone()),
        Some(Value::Number(id)) => Ok(id.to_string()),
        _ => Err(BadRow::new(
            key,
            format!("the row has no id under `{key}`"),
            "correct the row, or name another key with `--id-key`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(row: &Value, expected: Result<(&str, &str, Option<&str>), &str>) {
        let found = Keys::find(row.as_object().unwrap(), None, None, None);
        let found =
            found.as_ref().map(|keys| (keys.question.as_str(), keys.answer.as_str(), keys.id.as_deref()));
        assert_eq!(found.map_err(|bad| bad.message.as_str()), expected, "{row}");
    }

    #[test]
    fn keys_are_found_from_a_row() {
        check(&json!({ "question": "q", "answer": "a" }), Ok(("question", "answer", None)));
        check(
            &json!({ "problem": "q", "solution": "s", "answer": "a", "idx": 3 }),
            Ok(("problem", "answer", Some("idx"))),
        );
        let dapo = json!({ "prompt": [], "reward_model": { "ground_truth": "3", "style": "rule" }, "extra_info": { "index": "i" } });
        check(&dapo, Ok(("prompt", "reward_model.ground_truth", Some("extra_info.index"))));
    }

    /// K1.
    #[test]
    fn nothing_is_guessed() {
        check(
            &json!({ "question": "q", "prompt": "p", "answer": "a" }),
            Err("the question could be under question or prompt"),
        );
        check(&json!({ "question": "q", "reply": "a" }), Err("the key that holds the answer is unknown"));
        check(&json!({ "question": null, "answer": "a" }), Err("the key that holds the question is unknown"));
    }

    #[test]
    fn questions_are_texts_or_messages() {
        let check = |value: Value, expected: Result<&str, &str>| {
            let row = json!({ "q": value });
            let found = question(row.as_object().unwrap(), "q");
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(bad), Err(part)) => assert!(bad.message.contains(part), "{}", bad.message),
                (found, _) => panic!("{found:?} for {value}"),
            }
        };
        check(json!(" a\n"), Ok("a"));
        check(json!([{ "role": "user", "content": "a" }]), Ok("a"));
        check(
            json!([{ "role": "system", "content": "s" }, { "role": "user", "content": "a" }]),
            Ok("s\n\na"),
        );
        check(json!(format!("{DAPO_BEFORE}1 + 1{DAPO_AFTER}")), Ok("1 + 1"));
        check(
            json!([{ "role": "user", "content": "a" }, { "role": "assistant", "content": "b" }]),
            Err("is not a question"),
        );
        check(json!(" "), Err("empty"));
        check(json!(3), Err("neither"));
    }

    #[test]
    fn answers_are_single_values() {
        let check = |value: Value, expected: Option<&str>| {
            let row = json!({ "a": value });
            assert_eq!(written_answer(row.as_object().unwrap(), "a").ok().as_deref(), expected, "{value}");
        };
        check(json!("7"), Some("7"));
        check(json!(7.5), Some("7.5"));
        check(json!(["7"]), Some("7"));
        check(json!("[\"7\"]"), Some("7"));
        check(json!("[\"7\", \"8\"]"), None);
        check(json!("[1, 2]"), Some("[1, 2]"));
        check(json!({ "value": 7 }), None);
    }
}
