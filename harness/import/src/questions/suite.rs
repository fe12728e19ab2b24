//! Questions as a suite: rows in files, and one template for each file.
//!
//! S1. A template makes no more tasks than a suite allows; a longer family is split. S2. Row `n` of a file is instance
//! `n` of its family, from 0.

use clawrl_config::{Node, NodeValue};
use serde_json::{Value, json};

use crate::draft::{Fixture, FixtureSource, SuiteParts, whole};

/// Maximum tasks of one template.
const MAX_ROWS: usize = 10_000;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    pub(crate) id: String,
    pub(crate) question: String,
    pub(crate) answer: String,
    pub(crate) grading: Grading,
}

/// How an answer is compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Grading {
    Number {
        tolerance: f64,
    },
    /// By a regular expression.
    Pattern(String),
    /// Normalised.
    Text,
    /// Character by character.
    Exact,
}

/// Questions with the same kind of check.
#[derive(Debug, Clone)]
pub(crate) struct Family {
    pub(crate) name: String,
    pub(crate) questions: Vec<Question>,
}

pub(crate) fn questions_suite(families: &[Family], max_turns: u32) -> SuiteParts {
    let mut vars: Vec<(String, Node)> = Vec::new();
    let mut suite = SuiteParts::default();
    let mut count = 0;
    for family in families {
        for (at, questions) in family.questions.chunks(MAX_ROWS).enumerate() {
            let id = if at == 0 { family.name.clone() } else { format!("{}-{}", family.name, at + 1) };
            let list = format!("rows_{}", id.replace('-', "_"));
            let path = format!("rows/{id}.jsonl");
            vars.push((list.clone(), Node::map(vec![("rows", path.as_str().into())])));
            let rows: String = questions.iter().map(|question| format!("{}\n", row(question))).collect();
            suite.fixtures.push(Fixture {
                path,
                content: FixtureSource::Bytes(rows.into_bytes()),
                mode: 0o644,
            });
            suite.tasks.push(task(&id, &list, &questions[0].grading));
            suite.ids.push(id);
            count += questions.len();
        }
    }
    let python = Node::map(vec![("python", Node::map(vec![("python", Node::map(Vec::new()))]))]);
    let env = Node::map(vec![("toolcall", Node::map(vec![("tools", python)]))]);
    let vars = vars.iter().map(|(name, node)| (name.as_str(), node.clone())).collect();
    suite.count = Some(count);
    suite.head = vec![
        ("vars", Node::map(vars)),
        ("defaults", Node::map(vec![("max_turns", whole(max_turns.into())), ("env", env)])),
    ];
    suite
}

fn row(question: &Question) -> Value {
    let Question { id, question: text, answer, grading } = question;
    match grading {
        Grading::Number { tolerance } => {
            json!({ "id": id, "question": text, "answer": answer, "tolerance": tolerance })
        }
        Grading::Pattern(regex) => json!({ "id": id, "question": text, "answer": answer, "pattern": regex }),
        Grading::Text | Grading::Exact => json!({ "id": id, "question": text, "answer": answer }),
    }
}

fn task(id: &str, list: &str, grading: &Grading) -> Node {
    let answer = || Node::from("{{ row.answer }}");
    let check = match grading {
        Grading::Number { .. } => Node::map(vec![(
            "answer_number",
            Node::map(vec![("expected", answer()), ("tolerance", "{{ row.tolerance }}".into())]),
        )]),
        Grading::Pattern(_) => Node::map(vec![("answer_matches", "{{ row.pattern }}".into())]),
        Grading::Text => Node::map(vec![("answer_normalised", answer())]),
        Grading::Exact => Node::map(vec![("answer_equals", answer())]),
    };
    let actions = NodeValue::List(vec![Node::map(vec![("submit", answer())])]).into();
    Node::map(vec![
        ("id", id.into()),
        ("template", Node::map(vec![("row", Node::map(vec![("from", list.into())]))])),
        ("instances", "all".into()),
        ("instruction", "{{ row.question }}".into()),
        ("checks", NodeValue::List(vec![check]).into()),
        ("oracle", Node::map(vec![("actions", actions)])),
    ])
}
