//! Redacts records of attempts and the prompts of policies.

use clawrl_core::{
    Action, AttemptRecord, Fault, Message, Observation, Outcome, Part, StopReason, ToolCall, ToolSpec, Turn,
};

use crate::Redactor;
use crate::cast::redact_cast;

impl Redactor {
    /// Removes values from all texts of a record, and the tokens of replies that held one (I4).
    pub fn redact_record(&self, record: &mut AttemptRecord) {
        match &mut record.outcome {
            Outcome::Finished { stop, grade, .. } => {
                if let StopReason::Ended(reason) = stop {
                    self.redact_in_place(reason);
                }
                for check in &mut grade.checks {
                    self.redact_in_place(&mut check.label);
                    self.redact_in_place(&mut check.message);
                }
            }
            Outcome::Faulted(fault) => {
                self.redact_in_place(&mut fault.message);
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
        if let Some(redacted) = trajectory.cast.as_ref().and_then(|text| redact_cast(self, text)) {
            trajectory.cast = Some(redacted);
        }
    }

    /// Removes values from a policy's prompt, so that it equals the prompt in a redacted record.
    pub fn redact_prompt(&self, messages: &mut [Message], tools: &mut [ToolSpec]) {
        for message in messages {
            self.message(message);
        }
        for tool in tools {
            self.redact_in_place(&mut tool.description);
        }
    }

    /// Removes values from the message of a fault.
    #[must_use]
    pub fn redact_fault(&self, mut fault: Fault) -> Fault {
        self.redact_in_place(&mut fault.message);
        fault
    }

    /// Whether a reply holds a value.
    #[must_use]
    pub fn is_in_action(&self, action: &Action) -> bool {
        let mut calls = action.tool_calls.clone();
        let in_calls = calls.iter_mut().any(|call| self.call(call));
        in_calls || self.redact(&action.text).is_some()
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
        let named = self.redact_in_place(&mut call.name);
        self.redact_json(&mut call.arguments) || named
    }

    fn observation(&self, observation: &mut Observation) {
        self.parts(&mut observation.parts);
        for tool in &mut observation.tools {
            self.redact_in_place(&mut tool.description);
        }
        self.redact_map(&mut observation.facts);
        if let Some(text) = &mut observation.full_text {
            self.redact_in_place(text);
        }
    }

    fn parts(&self, parts: &mut [Part]) -> bool {
        parts.iter_mut().fold(false, |changed, part| match part {
            Part::Text { text } => self.redact_in_place(text) || changed,
            Part::Image { .. } => changed,
        })
    }
}
