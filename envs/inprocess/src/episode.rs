//! What the three kinds of environments have in common: episodes of replies, calls and a score.

use std::sync::Arc;

use clawrl_core::{ActionFormat, Observation, Script, StopReason, ToolCall, ToolSpec};
use serde_json::{Value, json};

use crate::row::Row;
use crate::traits::{MultiTurn, SingleTurn, Step, ToolEnv};

/// The tool whose text argument is the whole reply.
const REPLY: &str = "reply";
const REPLY_TEXT: &str = "text";
const SUBMIT: &str = "submit";
const ANSWER: &str = "answer";

/// An environment of any kind. Made from a type of one kind by [`IntoEnvironment`].
pub trait Environment: Send + Sync {
    /// Name in records and reports.
    fn name(&self) -> String;

    /// How replies are read.
    fn action_format(&self) -> ActionFormat;

    /// What the policy is asked.
    fn prompt(&self, row: &Row) -> String;

    /// Calls that solve the task.
    fn solution(&self, row: &Row) -> Option<Script>;

    /// Begins an episode.
    fn begin(self: Arc<Self>, row: Row, seed: u64) -> Box<dyn Episode>;
}

/// An attempt at a task.
pub trait Episode: Send {
    /// The tools on offer.
    fn tools(&self) -> Vec<ToolSpec>;

    /// Runs calls in order.
    fn step(&mut self, calls: &[ToolCall]) -> (Observation, Option<StopReason>);

    /// Score from 0 to 1.
    fn reward(&self) -> f64;
}

/// Types that are an environment. `Kind` is one of [`kind`], and tells their trait.
pub trait IntoEnvironment<Kind> {
    /// Converts.
    fn into_environment(self) -> Arc<dyn Environment>;
}

/// Which trait a type implements, for [`IntoEnvironment`].
pub mod kind {
    /// [`SingleTurn`](crate::SingleTurn).
    #[derive(Debug)]
    pub enum SingleTurn {}
    /// [`MultiTurn`](crate::MultiTurn).
    #[derive(Debug)]
    pub enum MultiTurn {}
    /// [`ToolEnv`](crate::ToolEnv).
    #[derive(Debug)]
    pub enum ToolEnv {}
}

impl<E: SingleTurn> IntoEnvironment<kind::SingleTurn> for E {
    fn into_environment(self) -> Arc<dyn Environment> {
        Arc::new(Single(self))
    }
}

impl<E: MultiTurn> IntoEnvironment<kind::MultiTurn> for E {
    fn into_environment(self) -> Arc<dyn Environment> {
        Arc::new(Multi(self))
    }
}

impl<E: ToolEnv> IntoEnvironment<kind::ToolEnv> for E {
    fn into_environment(self) -> Arc<dyn Environment> {
        Arc::new(Tools(self))
    }
}

struct Single<E>(E);

struct SingleEpisode<E> {
    env: Arc<Single<E>>,
    row: Row,
    reply: Option<String>,
}

impl<E: SingleTurn> Environment for Single<E> {
    fn name(&self) -> String {
        self.0.name()
    }

    fn action_format(&self) -> ActionFormat {
        ActionFormat::Raw
    }

    fn prompt(&self, row: &Row) -> String {
        self.0.prompt(row)
    }

    fn solution(&self, row: &Row) -> Option<Script> {
        self.0.solution(row).map(|text| Script::Calls(vec![reply_call(&text)]))
    }

    fn begin(self: Arc<Self>, row: Row, _seed: u64) -> Box<dyn Episode> {
        Box::new(SingleEpisode { env: self, row, reply: None })
    }
}

impl<E: SingleTurn> Episode for SingleEpisode<E> {
    fn tools(&self) -> Vec<ToolSpec> {
        vec![reply_tool()]
    }

    fn step(&mut self, calls: &[ToolCall]) -> (Observation, Option<StopReason>) {
        self.reply = calls.first().map(reply_of);
        (Observation::default(), Some(StopReason::Submitted))
    }

    fn reward(&self) -> f64 {
        self.reply.as_ref().map_or(0.0, |reply| self.env.0.reward(&self.row, reply))
    }
}

struct Multi<E>(E);

struct MultiEpisode<E: MultiTurn> {
    env: Arc<Multi<E>>,
    row: Row,
    state: E::State,
}

impl<E: MultiTurn> Environment for Multi<E> {
    fn name(&self) -> String {
        self.0.name()
    }

    fn action_format(&self) -> ActionFormat {
        ActionFormat::Raw
    }

    fn prompt(&self, row: &Row) -> String {
        self.0.prompt(row)
    }

    fn solution(&self, row: &Row) -> Option<Script> {
        let replies = self.0.solution(row)?;
        Some(Script::Calls(replies.iter().map(|text| reply_call(text)).collect()))
    }

    fn begin(self: Arc<Self>, row: Row, seed: u64) -> Box<dyn Episode> {
        let state = self.0.start(&row, seed);
        Box::new(MultiEpisode { env: self, row, state })
    }
}

impl<E: MultiTurn> Episode for MultiEpisode<E> {
    fn tools(&self) -> Vec<ToolSpec> {
        vec![reply_tool()]
    }

    fn step(&mut self, calls: &[ToolCall]) -> (Observation, Option<StopReason>) {
        let reply = calls.first().map(reply_of).unwrap_or_default();
        match self.env.0.step(&self.row, &mut self.state, &reply) {
            Step::Continue(text) => (Observation::from_text(text), None),
            Step::End => (Observation::default(), Some(StopReason::Ended("environment-ended".to_owned()))),
        }
    }

    fn reward(&self) -> f64 {
        self.env.0.reward(&self.row, &self.state)
    }
}

struct Tools<E>(E);

struct ToolEpisode<E: ToolEnv> {
    env: Arc<Tools<E>>,
    row: Row,
    state: E::State,
    answer: Option<String>,
}

impl<E: ToolEnv> Environment for Tools<E> {
    fn name(&self) -> String {
        self.0.name()
    }

    fn action_format(&self) -> ActionFormat {
        ActionFormat::ToolCalls
    }

    fn prompt(&self, row: &Row) -> String {
        self.0.prompt(row)
    }

    fn solution(&self, row: &Row) -> Option<Script> {
        let (calls, answer) = self.0.solution(row)?;
        let mut calls: Vec<ToolCall> =
            calls.into_iter().map(|(name, arguments)| ToolCall::new(&name, arguments)).collect();
        calls.push(ToolCall::new(SUBMIT, json!({ ANSWER: answer })));
        Some(Script::Calls(calls))
    }

    fn begin(self: Arc<Self>, row: Row, seed: u64) -> Box<dyn Episode> {
        let state = self.0.start(&row, seed);
        Box::new(ToolEpisode { env: self, row, state, answer: None })
    }
}

impl<E: ToolEnv> Episode for ToolEpisode<E> {
    fn tools(&self) -> Vec<ToolSpec> {
        let mut tools: Vec<ToolSpec> = self.env.0.tools(&self.row).into_iter().map(tool_spec).collect();
        assert!(tools.iter().all(|tool| tool.name != SUBMIT), "the tool name `{SUBMIT}` is reserved");
        tools.push(submit_tool());
        tools
    }

    fn step(&mut self, calls: &[ToolCall]) -> (Observation, Option<StopReason>) {
        let mut results = Vec::with_capacity(calls.len());
        for call in calls {
            if call.name == SUBMIT {
                self.answer = Some(text_of(&call.arguments[ANSWER]));
                return (
                    Observation { parts: results, ..Observation::default() },
                    Some(StopReason::Submitted),
                );
            }
            let result = self.env.0.call(&self.row, &mut self.state, &call.name, &call.arguments);
            let text = result.unwrap_or_else(|message| format!("error: {message}"));
            results.push(clawrl_core::Part::Text { text });
        }
        (Observation { parts: results, ..Observation::default() }, None)
    }

    fn reward(&self) -> f64 {
        self.env.0.reward(&self.row, &self.state, self.answer.as_deref())
    }
}

fn reply_tool() -> ToolSpec {
    ToolSpec {
        name: REPLY.to_owned(),
        description: "Replies.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": { REPLY_TEXT: { "type": "string" } },
            "required": [REPLY_TEXT],
        }),
        text_argument: Some(REPLY_TEXT.to_owned()),
    }
}

fn submit_tool() -> ToolSpec {
    ToolSpec {
        name: SUBMIT.to_owned(),
        description: "Ends the episode with an answer.".to_owned(),
        parameters: json!({ "type": "object", "properties": { ANSWER: { "type": "string" } } }),
        text_argument: None,
    }
}

fn tool_spec(tool: crate::traits::Tool) -> ToolSpec {
    let crate::traits::Tool { name, description, parameters } = tool;
    ToolSpec { name, description, parameters, text_argument: None }
}

fn reply_call(text: &str) -> ToolCall {
    ToolCall::new(REPLY, json!({ REPLY_TEXT: text }))
}

fn reply_of(call: &ToolCall) -> String {
    call.str_argument(REPLY_TEXT).unwrap_or_default().to_owned()
}

/// A string's characters, nothing for null, JSON for anything else.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
