//! The tokens of one attempt's conversation, as they grow.
//!
//! I1. Tokens in, tokens out: sampled tokens never change. Nothing is rendered or encoded twice: a turn appends the markup
//! after the reply and the new content, encoded by itself. I2. A sampled stop token is trained and occurs once; a reply cut
//! by its token limit is closed by the template's token, as context. I3. A context that does not
//! extend the one before (turns were left out, the template writes the past differently) begins a new segment, in
//! which the replies that are still shown are spliced in from their recorded ids, as context: they are trained where
//! they were sampled. I4. The tokens acted on are a function of the contexts shown and the tokens sampled, so [`segments`]
//! reconstructs them from a record.
//!
//! Deviation from encoding a whole conversation at once: pieces are encoded one by one, so no token spans markup and content.
//!
//! Pure; nothing to cancel.

use std::borrow::Cow;

use clawrl_core::{Message, Role, SampledTokens, ToolSpec};
use clawrl_learn::Segment;

use super::chat::Chat;
use super::error::ConversationError;
use super::template::Piece;

/// The input of a policy for a reply.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The conversation.
    pub messages: &'a [Message],
    /// Tools for the template to describe; none if actions are plain text.
    pub tools: &'a [ToolSpec],
}

/// A recorded turn: the context and the sampled reply.
#[derive(Debug, Clone)]
pub struct SampledTurn<'a> {
    /// The conversation as it was shown.
    pub messages: Cow<'a, [Message]>,
    /// Tools that the template described.
    pub tools: &'a [ToolSpec],
    /// The reply.
    pub tokens: Cow<'a, SampledTokens>,
}

/// The tokens of one attempt so far.
#[derive(Debug, Default)]
pub struct ConversationState {
    /// The last one is open.
    segments: Vec<Segment>,
    shown: Option<Shown>,
    replies: Vec<Reply>,
}

/// The context that the last reply was, or is to be, sampled in.
#[derive(Debug)]
struct Shown {
    messages: Vec<Message>,
    pieces: Vec<Piece>,
    answered: bool,
}

#[derive(Debug)]
struct Reply {
    text: String,
    ids: Vec<u32>,
}

impl ConversationState {
    /// Adds a context and returns the tokens of the prompt.
    ///
    /// # Errors
    /// [`ConversationError`]; the state must not be used afterwards.
    pub fn prompt(&mut self, chat: &Chat, context: Context<'_>) -> Result<&[u32], ConversationError> {
        if self.shown.as_ref().is_some_and(|shown| !shown.answered) {
            return Err(ConversationError::OutOfOrder("the last context has no reply yet"));
        }
        let Context { messages, tools } = context;
        check_tools(chat, tools)?;
        let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
        let pieces = chat.template.render(&roles, tools)?;
        let (new, spliced) = match self.continues_at(messages, &pieces) {
            Some(at) => (at, Vec::new()),
            None => {
                self.segments.push(Segment::default());
                (0, self.recorded_replies(messages))
            }
        };
        self.write(chat, messages, &pieces[new..], &spliced)?;
        self.shown = Some(Shown { messages: messages.to_vec(), pieces, answered: false });
        Ok(self.segments.last().map_or(&[], |segment| &segment.ids))
    }

    /// Adds the reply to the last context and returns its text.
    ///
    /// # Errors
    /// [`ConversationError::Damaged`] if the columns have different lengths.
    pub fn reply(
        &mut self,
        chat: &Chat,
        tokens: &SampledTokens,
        temperature: f32,
    ) -> Result<String, ConversationError> {
        let (Some(shown), Some(segment)) = (&mut self.shown, self.segments.last_mut()) else {
            return Err(ConversationError::OutOfOrder("a reply before any context"));
        };
        if std::mem::replace(&mut shown.answered, true) {
            return Err(ConversationError::OutOfOrder("two replies to one context"));
        }
        let turn = u32::try_from(self.replies.len()).unwrap_or(u32::MAX);
        push_sampled(segment, turn, tokens, temperature)?;
        let text = chat.reply_text(&tokens.ids)?;
        self.replies.push(Reply { text: text.clone(), ids: tokens.ids.clone() });
        Ok(text)
    }

    /// The segments with trained tokens.
    #[must_use]
    pub fn into_segments(self) -> Vec<Segment> {
        self.segments.into_iter().filter(|segment| segment.trained() > 0).collect()
    }

    /// Where the new pieces begin, if the context is the last one, its reply, and more (I3).
    fn continues_at(&self, messages: &[Message], pieces: &[Piece]) -> Option<usize> {
        let (shown, reply) = (self.shown.as_ref()?, self.replies.last()?);
        let (before, at) = (shown.messages.len(), shown.pieces.len());
        let said = messages.get(before)?;
        let same = messages.starts_with(&shown.messages)
            && is_reply(said, reply)
            && pieces.starts_with(&shown.pieces)
            && pieces.get(at) == Some(&Piece::Content(before));
        same.then_some(at + 1)
    }

    /// For each message, the index of the recorded reply with this text. Matched from the end, because the last turns are
    /// always shown; each reply matches one message.
    fn recorded_replies(&self, messages: &[Message]) -> Vec<Option<usize>> {
        let mut found = vec![None; messages.len()];
        let mut left = self.replies.len();
        for (index, message) in messages.iter().enumerate().rev() {
            if let Some(reply) = self.replies[..left].iter().rposition(|reply| is_reply(message, reply)) {
                found[index] = Some(reply);
                left = reply;
            }
        }
        found
    }

    /// Appends pieces as context. At the start of a continuation the segment ends in a reply.
    fn write(
        &mut self,
        chat: &Chat,
        messages: &[Message],
        pieces: &[Piece],
        spliced: &[Option<usize>],
    ) -> Result<(), ConversationError> {
        let Some(segment) = self.segments.last_mut() else {
            return Err(ConversationError::OutOfOrder("no segment is open"));
        };
        let sampled_end = |ids: &[u32]| ids.last().copied().filter(|id| chat.stop_ids().contains(id));
        // The stop token that the reply itself contains, so that the template's is not appended (I2).
        let mut end = sampled_end(&segment.ids);
        for piece in pieces {
            match piece {
                Piece::Markup(text) => {
                    let ids = chat.tokenizer.encode_markup(text)?;
                    let doubled = end.take().is_some_and(|end| ids.first() == Some(&end));
                    segment.push_context(&ids[usize::from(doubled)..]);
                }
                Piece::Content(index) => match spliced.get(*index).copied().flatten() {
                    Some(reply) => {
                        segment.push_context(&self.replies[reply].ids);
                        end = sampled_end(&self.replies[reply].ids);
                    }
                    None => {
                        let message = &messages[*index];
                        if !message.tool_calls.is_empty() && message.parts.is_empty() {
                            return Err(ConversationError::ForeignCalls);
                        }
                        segment.push_context(&chat.content_ids(message)?);
                        end = None;
                    }
                },
            }
        }
        Ok(())
    }
}

/// The segments of a recorded attempt, for training: the tokens that the policy acted on (I4).
///
/// `temperature` is that of all its replies. Turns in order.
///
/// # Errors
/// [`ConversationError`]; [`ConversationError::Damaged`] also for replies that were not drawn from a distribution.
pub fn segments<'a>(
    chat: &Chat,
    turns: impl IntoIterator<Item = SampledTurn<'a>>,
    temperature: f32,
) -> Result<Vec<Segment>, ConversationError> {
    // Written so that it also refuses NaN.
    if !(temperature > 0.0 && temperature.is_finite()) {
        return Err(ConversationError::Damaged("greedy replies are not drawn from a distribution"));
    }
    let mut state = ConversationState::default();
    for SampledTurn { messages, tools, tokens } in turns {
        state.prompt(chat, Context { messages: &messages, tools })?;
        state.reply(chat, &tokens, temperature)?;
    }
    Ok(state.into_segments())
}

fn is_reply(message: &Message, reply: &Reply) -> bool {
    message.role == Role::Assistant && message.tool_calls.is_empty() && message.joined_text() == reply.text
}

fn push_sampled(
    segment: &mut Segment,
    turn: u32,
    tokens: &SampledTokens,
    temperature: f32,
) -> Result<(), ConversationError> {
    let SampledTokens { ids, logprobs, versions } = tokens;
    if ids.len() != logprobs.len() {
        return Err(ConversationError::Damaged("as many log-probabilities as ids are needed"));
    }
    if logprobs.iter().any(|logprob| !logprob.is_finite()) {
        return Err(ConversationError::Damaged("a log-probability is not finite"));
    }
    let ascending = versions.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let begins = ids.is_empty() || versions.first().is_some_and(|&(first, _)| first == 0);
    if !begins || !ascending {
        return Err(ConversationError::Damaged("versions have to begin at the first token and ascend"));
    }
    let mut version = versions.iter().peekable();
    let mut current = 0;
    for (index, (&id, &logprob)) in (0u32..).zip(ids.iter().zip(logprobs)) {
        if let Some(&(_, newer)) = version.next_if(|&&(first, _)| first == index) {
            current = newer;
        }
        segment.push_sampled(turn, id, logprob, current, temperature);
    }
    Ok(())
}

fn check_tools(chat: &Chat, tools: &[ToolSpec]) -> Result<(), ConversationError> {
    // Tools pass through the template unchanged, so they must not contain markup.
    for tool in tools {
        let written =
            [&tool.name, &tool.description, &tool.parameters.to_string()].map(String::as_str).concat();
        if let Some(token) = chat.tokenizer.find_added_token(&written) {
            return Err(ConversationError::ForgedTool { tool: tool.name.clone(), token: token.to_owned() });
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
