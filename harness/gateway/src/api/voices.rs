//! The choices of an answer under way, side by side in memory: a stream looks at them with each token, tens of milliseconds apart, when all
//! of it has left the caches since.
//!
//! I1. Every token that was sampled is in the server's numbers, at the latest when its answer ends or is dropped.

use clawrl_core::ReplyPart;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::stream::BoxStream;

use super::choice::Choice;
use super::gateway::Gateway;
use super::shapes::Around;
use crate::{BackendError, Piece, Usage};

/// Tokens of a choice that the numbers are told of together: they lie between all workers.
const TOLD_AT_ONCE: usize = 16;

pub(super) type Pieces = BoxStream<'static, Result<Piece, BackendError>>;

/// The choices of an answer.
pub(super) struct Voices {
    all: Vec<Voice>,
    /// Who is asked first.
    next: usize,
    gateway: Arc<Gateway>,
}

/// A choice, and where its pieces come from.
pub(super) struct Voice {
    pub(super) choice: Choice,
    /// Where it is told in pieces.
    pub(super) around: Option<Around>,
    /// Nothing once it has ended.
    pieces: Option<Pieces>,
    /// Of its tokens, so many are in the numbers.
    told: usize,
}

impl Voices {
    /// Without any yet.
    pub(super) fn new(gateway: Arc<Gateway>, room: usize) -> Self {
        Self { all: Vec::with_capacity(room), next: 0, gateway }
    }

    pub(super) fn add(&mut self, choice: Choice, around: Option<Around>, pieces: Pieces) {
        self.all.push(Voice { choice, around, pieces: Some(pieces), told: 0 });
    }

    pub(super) fn choices(&self) -> impl Iterator<Item = &Choice> {
        self.all.iter().map(|voice| &voice.choice)
    }

    pub(super) fn choices_mut(&mut self) -> impl Iterator<Item = &mut Choice> {
        self.all.iter_mut().map(|voice| &mut voice.choice)
    }

    /// How many calls of one are known.
    pub(super) fn calls_of(&self, at: usize) -> usize {
        self.all[at].choice.calls().len()
    }

    /// The next piece of any that has not ended, with its index; `None` when all have.
    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<(usize, Result<Piece, BackendError>)>> {
        let mut have_ended = true;
        for step in 0..self.all.len() {
            let at = (self.next + step) % self.all.len();
            let voice = &mut self.all[at];
            let Some(pieces) = &mut voice.pieces else { continue };
            have_ended = false;
            let Poll::Ready(piece) = pieces.poll_next_unpin(context) else { continue };
            // The others come first next time.
            self.next = at + 1;
            let piece = piece.unwrap_or_else(|| {
                voice.pieces = None;
                Err(BackendError::Broken("its answer ended without an end".to_owned()))
            });
            return Poll::Ready(Some((at, piece)));
        }
        if have_ended { Poll::Ready(None) } else { Poll::Pending }
    }

    /// Takes a token in that says text and nothing else, and gives what is around that in a stream, and the text; nothing where it is none,
    /// or is not told in pieces.
    pub(super) fn take_plain<'a>(&mut self, at: usize, piece: &'a Piece) -> Option<(&Around, &'a str)> {
        let voice = &mut self.all[at];
        voice.around.as_ref()?;
        let text = voice.choice.take_plain(piece)?;
        voice.tell(&self.gateway, TOLD_AT_ONCE);
        Some((voice.around.as_ref()?, text))
    }

    /// Takes a piece in, and gives the parts that it makes known; a choice that has ended is not listened to any more.
    pub(super) fn take(&mut self, at: usize, piece: Piece) -> (&mut Voice, Vec<ReplyPart>) {
        let voice = &mut self.all[at];
        let parts = voice.choice.take(piece);
        if voice.choice.has_ended() {
            voice.pieces = None;
        }
        voice.tell(&self.gateway, if voice.choice.has_ended() { 1 } else { TOLD_AT_ONCE });
        (voice, parts)
    }

    /// The prompt counts once.
    pub(super) fn usage(&self) -> Usage {
        let all = self.choices().map(Choice::usage);
        all.reduce(|sum, next| Usage { prompt: sum.prompt, completion: sum.completion + next.completion })
            .unwrap_or_default()
    }
}

impl Voice {
    /// Tells the numbers of what they do not have yet, where that is as much as this.
    fn tell(&mut self, gateway: &Gateway, least: usize) {
        let sampled = self.choice.tokens().sampled.len();
        let more = sampled - self.told;
        if more < least {
            return;
        }
        self.told = sampled;
        gateway.metrics.sampled_tokens.add(more as u64);
        gateway.metrics.recent.add(more as u64);
    }
}

impl Drop for Voices {
    fn drop(&mut self) {
        for voice in &mut self.all {
            voice.tell(&self.gateway, 1);
        }
    }
}
