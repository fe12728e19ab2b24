//! An answer as it was sent to the client.

use clawrl_core::openai::{CallArguments, ContentPart};

use crate::Digest;
use crate::message;

/// One choice of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// Text; reasoning in it does not count.
    pub text: String,
    /// Calls, in order.
    pub calls: Vec<ReplyCall>,
}

/// A call of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyCall {
    /// Id as sent; the client may replay another one.
    pub id: String,
    /// Tool name.
    pub name: String,
    /// Arguments exactly as the policy wrote them, which may not be JSON.
    pub arguments: String,
}

impl Reply {
    /// An answer of text alone.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self { text: text.to_owned(), calls: Vec::new() }
    }

    /// Whether a client shows anything of it.
    pub(crate) fn is_visible(&self) -> bool {
        !self.calls.is_empty() || !message::without_reasoning(&self.text).trim().is_empty()
    }

    /// Digest of the message that a client makes of it; `None` for an invisible answer.
    pub(crate) fn digest(&self) -> Option<Digest> {
        let calls = self.calls.iter().map(|call| (&*call.name, CallArguments::Text(&call.arguments)));
        self.is_visible().then(|| message::assistant(&[ContentPart::Text(&self.text)], calls).digest)
    }
}
