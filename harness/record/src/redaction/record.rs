//! Every text of an attempt's record.

use clawrl_core::{
    Action, AttemptRecord, Message, Observation, Outcome, Part, StopReason, ToolCall, ToolSpec, Turn,
};
use serde_json::{Map, Value};

use super::cast::cast;
use super::redactor::Redactor;
use crate::JudgedTurn;

impl Redactor {
    /// Strikes values out of a record.
    pub(crate) fn record(&self, record: &mut AttemptRecord) {
        match &mut record.outcome {
            Outcome::Finished { stop, grade, .. } => {
                if let StopReason::Ended(reason) = stop {
                    self.string(reason);
                }
                for check in &mut grade.checks {
                    self.string(&mut check.label);
                    self.string(&mut check.message);
                }
            }
            Outcome::Faulted(fault) => {
                self.string(&mut fault.message);
            }
            Outcome::Cancelled(_) => {}
        }
        let trajectory = &mut record.trajectory;
        for message in &mut trajectory.prompt {
            self.message(message);
        }
        self.observation(&mut trajectory.reset);
        for turn in &mut trajectory.turns {
            self.turn(turn);
        }
        if let Some(redacted) = trajectory.cast.as_ref().and_then(|text| cast(self, text)) {
            trajectory.cast = Some(redacted);
        }
    }

    /// Strikes values out of what a policy is shown, as a record of it would not have them either.
    pub fn shown(&self, messages: &mut [Message], tools: &mut [ToolSpec]) {
        for message in messages {
            self.message(message);
        }
        for tool in tools {
            self.string(&mut tool.description);
        }
    }

    /// Whether a reply holds a value.
    #[must_use]
    pub fn is_in(&self, action: &Action) -> bool {
        let mut calls = action.tool_calls.clone();
        let in_calls = calls.iter_mut().any(|call| self.call(call));
        in_calls || self.text(&action.text).is_some()
    }

    /// Strikes values out of what judges said.
    pub(crate) fn judged(&self, row: &mut JudgedTurn) {
        for judgement in row.process.iter_mut().chain(&mut row.hint) {
            judgement.missing.iter_mut().for_each(|why| {
                self.string(why);
            });
            for vote in &mut judgement.votes {
                self.string(&mut vote.reason);
                vote.hint.iter_mut().for_each(|hint| {
                    self.string(hint);
                });
            }
        }
    }

    fn turn(&self, turn: &mut Turn) {
        let mut changed = self.message(&mut turn.reply);
        for call in &mut turn.calls {
            changed |= self.call(call);
        }
        if changed {
            turn.tokens = None;
        }
        self.observation(&mut turn.observation);
    }

    fn message(&self, message: &mut Message) -> bool {
        let mut changed = self.parts(&mut message.parts);
        for call in &mut message.tool_calls {
            changed |= self.call(call);
        }
        changed
    }

    fn call(&self, call: &mut ToolCall) -> bool {
        let named = self.string(&mut call.name);
        self.value(&mut call.arguments) || named
    }

    fn observation(&self, observation: &mut Observation) {
        self.parts(&mut observation.parts);
        for tool in &mut observation.tools {
            self.string(&mut tool.description);
        }
        self.map(&mut observation.facts);
        if let Some(text) = &mut observation.full_text {
            self.string(text);
        }
    }

    fn parts(&self, parts: &mut [Part]) -> bool {
        parts.iter_mut().fold(false, |changed, part| match part {
            Part::Text { text } => self.string(text) || changed,
            Part::Image { .. } => changed,
        })
    }

    fn value(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => self.string(text),
            Value::Array(values) => self.each(values.iter_mut()),
            Value::Object(map) => self.map(map),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Every one of them, whatever was found in those before it.
    fn each<'a>(&self, values: impl Iterator<Item = &'a mut Value>) -> bool {
        values.map(|value| u32::from(self.value(value))).sum::<u32>() > 0
    }

    /// Keys, too: the policy chooses those of its calls.
    fn map(&self, map: &mut Map<String, Value>) -> bool {
        let mut changed = self.each(map.values_mut());
        if map.keys().any(|key| self.text(key).is_some()) {
            let renamed = std::mem::take(map).into_iter();
            map.extend(renamed.map(|(key, value)| (self.text(&key).unwrap_or(key), value)));
            changed = true;
        }
        changed
    }

    fn string(&self, text: &mut String) -> bool {
        match self.text(text) {
            Some(redacted) => {
                *text = redacted;
                true
            }
            None => false,
        }
    }
}
