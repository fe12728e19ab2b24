//! Requests to a model, split into pieces.

use std::sync::Arc;

use clawrl_core::{Message, PolicyRequest, ToolSpec};
use serde_json::{Value, json};

use crate::canonical::Hash;

/// The request to a model for one reply.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// A JSON object: the model, its sampling, and all other settings that affect sampling. Nothing secret.
    pub settings: Value,
    /// The conversation as sent, with the policy's system text before it. Without secrets.
    pub messages: Vec<Message>,
    /// Tools in the server's native form. Tools described in text are part of the messages.
    pub tools: Vec<ToolSpec>,
}

/// The request that a cassette's policy would send to its model.
pub type Show = Arc<dyn Fn(&PolicyRequest<'_>) -> ModelRequest + Send + Sync>;

/// A value with its hash. Shared by all requests that it is a part of.
#[derive(Debug, Clone)]
pub(crate) struct Piece<T> {
    pub(crate) hash: Hash,
    pub(crate) value: Arc<T>,
}

impl<T> Piece<T> {
    fn new(value: T, seen: &Value) -> Self {
        Self { hash: Hash::of(seen), value: Arc::new(value) }
    }
}

/// A request as pieces.
#[derive(Debug, Clone)]
pub(crate) struct Pieces {
    pub(crate) settings: Piece<Value>,
    pub(crate) messages: Vec<Piece<Message>>,
    pub(crate) tools: Vec<Piece<ToolSpec>>,
}

impl Pieces {
    /// Hash of all pieces.
    pub(crate) fn hash(&self) -> Hash {
        let messages = self.messages.iter().map(|piece| &piece.hash).collect();
        let tools = self.tools.iter().map(|piece| &piece.hash).collect();
        Hash::over([vec![&self.settings.hash], messages, tools])
    }
}

impl From<ModelRequest> for Pieces {
    fn from(asked: ModelRequest) -> Self {
        Self {
            settings: settings_piece(asked.settings),
            messages: asked.messages.into_iter().map(message_piece).collect(),
            tools: asked.tools.into_iter().map(tool_piece).collect(),
        }
    }
}

pub(crate) fn settings_piece(settings: Value) -> Piece<Value> {
    let seen = settings.clone();
    Piece::new(settings, &seen)
}

pub(crate) fn message_piece(message: Message) -> Piece<Message> {
    let seen = json!(message);
    Piece::new(message, &seen)
}

/// How text is parsed as a call does not affect the model's request.
pub(crate) fn tool_piece(tool: ToolSpec) -> Piece<ToolSpec> {
    let ToolSpec { name, description, parameters, .. } = &tool;
    let seen = json!({ "name": name, "description": description, "parameters": parameters });
    Piece::new(tool, &seen)
}
