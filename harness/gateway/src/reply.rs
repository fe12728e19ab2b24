//! What the policy answered, as it was sent.

use crate::Digest;
use crate::message::{self, Arguments, Call, Part};

/// One choice of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// Its text, reasoning included or not: that does not count.
    pub text: String,
    /// Its calls, in order.
    pub calls: Vec<ReplyCall>,
}

/// A call of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyCall {
    /// As sent to the client, which may replay another one.
    pub id: String,
    /// Of the tool.
    pub name: String,
    /// As the policy wrote them.
    pub arguments: String,
}

impl Reply {
    /// An answer of text alone.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self { text: text.to_owned(), calls: Vec::new() }
    }

    /// Whether anybody sees it.
    pub(crate) fn is_visible(&self) -> bool {
        !self.calls.is_empty() || !message::without_reasoning(&self.text).trim().is_empty()
    }

    /// The digest of the message that a client makes of it; nothing where nobody sees an answer.
    pub(crate) fn digest(&self) -> Option<Digest> {
        let form =
            || message::assistant(&[Part::Text(&self.text)], self.calls.iter().map(ReplyCall::as_written));
        self.is_visible().then(|| form().digest)
    }
}

impl ReplyCall {
    fn as_written(&self) -> Call<'_> {
        Call { name: &self.name, arguments: Arguments::Written(&self.arguments) }
    }
}
