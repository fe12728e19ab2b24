//! Which keys of a row hold its question, its answer and its id, and what stands there.
//!
//! K1. Where several keys could be meant, none is taken: the person says which.

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

/// What the training code that came with DAPO-Math puts around a problem. Here an answer is submitted, not written.
const DAPO_BEFORE: &str = "Solve the following math problem step by step. The last line of your response should be of the form Answer: $Answer (without quotes) where $Answer is the answer to the problem.\n\n";
const DAPO_AFTER: &str = "\n\nRemember to put your answer on its own line after \"Answer:\".";

/// Where a file has what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) question: String,
    pub(super) answer: String,
    pub(super) id: Option<String>,
}

/// What is wrong, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadRow {
    /// Where in the row; the whole row if it is empty.
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
    /// Finds the keys that are not given (K1).
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
            let message = format!("no key of this row is known to hold the {what}");
            Err(BadRow::new("", message, format!("name it: `{option} KEY`; the row has {}", keys.join(", "))))
        }
        [first, ..] => {
            let message = format!("the {what} could stand under {}", found.join(" or "));
            Err(BadRow::new(first, message, format!("say which: `{option} {first}`")))
        }
    }
}

/// The question: a text, or the messages of a chat that ends with its first user message.
pub(super) fn question(row: &Map<String, Value>, key: &str) -> Result<String, BadRow> {
    let help = "correct the row, or name another key with `--question-key`";
    let text = match at(row, key) {
        None => return Err(BadRow::new(key, format!("the row has no `{key}`"), help)),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(messages)) => conversation(messages).ok_or_else(|| {
            BadRow::new(
                key,
                format!(
                    "`{key}` is no question: messages of a chat are expected, a user's the last and only one"
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
        return Err(BadRow::new(key, "the question holds a NUL", "save it as text"));
    }
    Ok(text.trim().to_owned())
}

/// What a system message says stands before what the user asks.
pub(crate) fn conversation(messages: &[Value]) -> Option<String> {
    let said = |message: &Value, role: &str| {
        let content = message.get("content")?.as_str()?;
        (message.get("role")?.as_str()? == role).then(|| content.trim().to_owned())
    };
    match messages {
        [user] => said(user, "user"),
        [system, user] => Some(format!("{}\n\n{}", said(system, "system")?, said(user, "user")?)),
        _ => None,
    }
}

/// The answer as it is written: a text or a number, also as the only entry of a list.
pub(super) fn written_answer(row: &Map<String, Value>, key: &str) -> Result<String, BadRow> {
    let help = "correct the row, or name another key with `--answer-key`";
    let several = || {
        let message = format!("`{key}` has several answers, and does not say whether one of them is enough");
        BadRow::new(key, message, "keep one, or leave such rows out with `--skip-unrepresentable`")
    };
    match at(row, key) {
        None => Err(BadRow::new(key, format!("the row has no `{key}`"), help)),
        // A whole number is often written as a float.
        Some(Value::Number(number)) => {
            let text = number.to_string();
            Ok(text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned))
        }
        // Some sets hold a list as a text.
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

/// The row's id, where it has one.
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
    fn keys_are_found_by_looking_at_a_row() {
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
            Err("the question could stand under question or prompt"),
        );
        check(
            &json!({ "question": "q", "reply": "a" }),
            Err("no key of this row is known to hold the answer"),
        );
        check(
            &json!({ "question": null, "answer": "a" }),
            Err("no key of this row is known to hold the question"),
        );
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
            Err("no question"),
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
