//! Calls that come in pieces.
//!
//! I1. Pieces of one call are put together by their index; a new id at a known index is a new call, since some servers
//! number all calls 0. I2. Calls are in the order of their indices, and of their first pieces where those are equal.
//!
//! Pure; nothing to cancel.

use serde_json::Value;

use crate::reply::PartialCall;

/// Takes pieces, gives calls.
#[derive(Debug, Default)]
pub(crate) struct PartialCalls(Vec<(Option<u64>, PartialCall)>);

impl PartialCalls {
    /// Takes a piece of `tool_calls`; returns the bytes that it adds.
    pub(crate) fn take(&mut self, piece: &Value) -> usize {
        let index = piece.get("index").and_then(Value::as_u64);
        let id = piece.get("id").and_then(Value::as_str).unwrap_or_default();
        let continued = self.0.iter().rposition(|(known, call)| {
            let same_id = id.is_empty() || call.id.is_empty() || call.id == id;
            same_id && (index.is_none() || *known == index)
        });
        // A piece without index and id that has a name begins a call, too.
        let name = piece.pointer("/function/name").and_then(Value::as_str).unwrap_or_default();
        let begins = index.is_none() && id.is_empty() && !name.is_empty();
        let at = match continued {
            Some(at) if !begins => at,
            _ => {
                self.0.push((index, PartialCall::default()));
                self.0.len() - 1
            }
        };
        let call = &mut self.0[at].1;
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        let arguments = match piece.pointer("/function/arguments") {
            Some(Value::String(text)) => text.clone(),
            Some(object @ Value::Object(_)) => object.to_string(),
            _ => String::new(),
        };
        call.arguments.push_str(&arguments);
        name.len() + arguments.len()
    }

    /// How many have begun.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them (I2).
    pub(crate) fn all(mut self) -> impl Iterator<Item = PartialCall> {
        // Stable, so that calls without an index, and those that are all numbered 0, stay as they came.
        self.0.sort_by_key(|(index, _)| index.unwrap_or_default());
        self.0.into_iter().map(|(_, call)| call)
    }
}
