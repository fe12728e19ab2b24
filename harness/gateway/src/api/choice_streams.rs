//! The choices of an answer in progress, contiguous in memory: a stream uses them for each token, tens of milliseconds apart, when they
//! have left the caches.
//!
//! I1. Every sampled token is counted in the server's metrics, at the latest when its answer ends or is dropped.

use std::sync::Arc;
use std::task::{Context, Poll};

use clawrl_core::{ReplyPart, Usage};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;

use super::choice::Choice;
use super::gateway::Gateway;
use super::response::ChunkTemplate;
use crate::{BackendError, Piece};

/// Tokens that are added to the metrics at once, because all workers share these.
const METRICS_BATCH: usize = 16;

pub(super) type Pieces = BoxStream<'static, Result<Piece, BackendError>>;

/// The choices of an answer.
pub(super) struct ChoiceStreams {
    all: Vec<ChoiceStream>,
    /// The stream to poll first.
    next: usize,
    gateway: Arc<Gateway>,
}

/// A choice and the source of its pieces.
pub(super) struct ChoiceStream {
    pub(super) choice: Choice,
    /// The JSON around its text, if streamed.
    pub(super) template: Option<ChunkTemplate>,
    /// `None` once it has ended.
    pieces: Option<Pieces>,
    /// Tokens that are in the metrics.
    counted: usize,
}

impl ChoiceStreams {
    /// Without streams, and with room for some.
    pub(super) fn new(gateway: Arc<Gateway>, room: usize) -> Self {
        Self { all: Vec::with_capacity(room), next: 0, gateway }
    }

    pub(super) fn add(&mut self, choice: Choice, template: Option<ChunkTemplate>, pieces: Pieces) {
        self.all.push(ChoiceStream { choice, template, pieces: Some(pieces), counted: 0 });
    }

    pub(super) fn choices(&self) -> impl Iterator<Item = &Choice> {
        self.all.iter().map(|stream| &stream.choice)
    }

    pub(super) fn choices_mut(&mut self) -> impl Iterator<Item = &mut Choice> {
        self.all.iter_mut().map(|stream| &mut stream.choice)
    }

    /// Number of complete calls of a choice.
    pub(super) fn calls_of(&self, at: usize) -> usize {
        self.all[at].choice.calls().len()
    }

    /// The next piece of any running choice, with its index; `None` when all have ended.
    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<(usize, Result<Piece, BackendError>)>> {
        let mut have_ended = true;
        for step in 0..self.all.len() {
            let at = (self.next + step) % self.all.len();
            let stream = &mut self.all[at];
            let Some(pieces) = &mut stream.pieces else { continue };
            have_ended = false;
            let Poll::Ready(piece) = pieces.poll_next_unpin(context) else { continue };
            // The others are polled first next time.
            self.next = at + 1;
            let piece = piece.unwrap_or_else(|| {
                stream.pieces = None;
                Err(BackendError::Broken("its answer ended early".to_owned()))
            });
            return Poll::Ready(Some((at, piece)));
        }
        if have_ended { Poll::Ready(None) } else { Poll::Pending }
    }

    /// Takes a token that is only text, and returns the JSON around it and the text; `None` for other pieces, and for choices that are not
    /// streamed.
    pub(super) fn take_plain<'a>(
        &mut self,
        at: usize,
        piece: &'a Piece,
    ) -> Option<(&ChunkTemplate, &'a str)> {
        let stream = &mut self.all[at];
        stream.template.as_ref()?;
        let text = stream.choice.take_plain(piece)?;
        stream.count_tokens(&self.gateway, METRICS_BATCH);
        Some((stream.template.as_ref()?, text))
    }

    /// Takes a piece, and returns the parts that are complete. A choice that has ended is not polled again.
    pub(super) fn take(&mut self, at: usize, piece: Piece) -> (&mut ChoiceStream, Vec<ReplyPart>) {
        let stream = &mut self.all[at];
        let parts = stream.choice.take(piece);
        if stream.choice.has_ended() {
            stream.pieces = None;
        }
        stream.count_tokens(&self.gateway, if stream.choice.has_ended() { 1 } else { METRICS_BATCH });
        (stream, parts)
    }

    /// Token counts of all choices; the prompt is counted once.
    pub(super) fn usage(&self) -> Usage {
        let all = self.choices().map(Choice::usage);
        all.reduce(|sum, next| Usage { output_tokens: sum.output_tokens + next.output_tokens, ..sum })
            .unwrap_or_else(|| Usage::reported(0, 0))
    }
}

impl ChoiceStream {
    /// Adds new tokens to the metrics, if there are at least this many.
    fn count_tokens(&mut self, gateway: &Gateway, least: usize) {
        let sampled = self.choice.tokens().sampled.len();
        let more = sampled - self.counted;
        if more < least {
            return;
        }
        self.counted = sampled;
        gateway.metrics.sampled_tokens.add(more as u64);
        gateway.metrics.recent.add(more as u64);
    }
}

impl Drop for ChoiceStreams {
    fn drop(&mut self) {
        for stream in &mut self.all {
            stream.count_tokens(&self.gateway, 1);
        }
    }
}
