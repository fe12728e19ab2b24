//! The traits that an environment implements, from the smallest to the largest.

use std::any::type_name;

use serde_json::Value;

use crate::row::Row;

/// An environment with one prompt and one reply.
///
/// ```
/// use clawrl_inprocess::{Row, SingleTurn};
///
/// struct Reverse;
///
/// impl SingleTurn for Reverse {
///     fn prompt(&self, row: &Row) -> String {
///         format!("Reverse {}.", row["text"])
///     }
///
///     fn reward(&self, row: &Row, reply: &str) -> f64 {
///         f64::from(reply.trim() == row["answer"])
///     }
/// }
///
/// let row: Row = [("text", "abc"), ("answer", "cba")].into_iter().collect();
/// assert_eq!(Reverse.prompt(&row), "Reverse abc.");
/// assert_eq!(Reverse.reward(&row, "cba\n"), 1.0);
/// ```
pub trait SingleTurn: Send + Sync + 'static {
    /// Name of the environment in records and reports.
    fn name(&self) -> String {
        type_label::<Self>()
    }

    /// What the policy is asked.
    fn prompt(&self, row: &Row) -> String;

    /// Score of the reply, from 0 to 1. The task is passed at 1.
    fn reward(&self, row: &Row, reply: &str) -> f64;

    /// A reply that scores 1, for scripted policies and demonstrations. By default the row's field `answer`.
    fn solution(&self, row: &Row) -> Option<String> {
        row.get("answer").map(ToString::to_string)
    }
}

/// An environment with several prompts and replies.
pub trait MultiTurn: Send + Sync + 'static {
    /// What an episode keeps between replies.
    type State: Send + 'static;

    /// Name of the environment in records and reports.
    fn name(&self) -> String {
        type_label::<Self>()
    }

    /// What the policy is asked first.
    fn prompt(&self, row: &Row) -> String;

    /// The state before the first reply. `seed` is equal for all attempts of a group.
    fn start(&self, row: &Row, seed: u64) -> Self::State;

    /// Takes a reply, and answers it or ends the episode.
    fn step(&self, row: &Row, state: &mut Self::State, reply: &str) -> Step;

    /// Score of the episode, from 0 to 1, also where a limit cut it. The task is passed at 1.
    fn reward(&self, row: &Row, state: &Self::State) -> f64;

    /// Replies that score 1, for scripted policies and demonstrations.
    fn solution(&self, _row: &Row) -> Option<Vec<String>> {
        None
    }
}

/// An environment with tools. An episode ends when the policy calls `submit`, which every such environment offers, with its
/// answer.
pub trait ToolEnv: Send + Sync + 'static {
    /// What an episode keeps between calls.
    type State: Send + 'static;

    /// Name of the environment in records and reports.
    fn name(&self) -> String {
        type_label::<Self>()
    }

    /// What the policy is asked.
    fn prompt(&self, row: &Row) -> String;

    /// The tools on offer, apart from `submit`.
    fn tools(&self, row: &Row) -> Vec<Tool>;

    /// The state before the first call. `seed` is equal for all attempts of a group.
    fn start(&self, row: &Row, seed: u64) -> Self::State;

    /// Calls a tool of [`ToolEnv::tools`] with arguments that are a JSON object, and returns what the policy is shown.
    ///
    /// # Errors
    /// A message for the policy, which may try again.
    fn call(
        &self,
        row: &Row,
        state: &mut Self::State,
        tool: &str,
        arguments: &Value,
    ) -> Result<String, String>;

    /// Score of the episode, from 0 to 1. The task is passed at 1. `answer` is what was submitted, if anything was.
    fn reward(&self, row: &Row, state: &Self::State, answer: Option<&str>) -> f64;

    /// Calls that score 1 together with the answer that follows them, for scripted policies and demonstrations.
    fn solution(&self, _row: &Row) -> Option<(Vec<(String, Value)>, String)> {
        None
    }
}

/// What follows a reply in a [`MultiTurn`] environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The policy is shown this text, and replies again.
    Continue(String),
    /// The episode ends.
    End,
}

/// A tool of a [`ToolEnv`].
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// As the policy calls it; not `submit`.
    pub name: String,
    /// One or two sentences for the policy.
    pub description: String,
    /// JSON schema of its arguments, an object.
    pub parameters: Value,
}

/// The last part of a type's path.
fn type_label<T: ?Sized>() -> String {
    let path = type_name::<T>();
    let path = path.split_once('<').map_or(path, |(path, _)| path);
    path.rsplit("::").next().unwrap_or(path).to_owned()
}
