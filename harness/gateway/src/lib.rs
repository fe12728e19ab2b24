//! Personal chat: what a chat client's request says, how requests make turns with their next states, the ledger in which all of
//! that is kept, and the API that is in front of it.
//!
//! [`Recorder`] is who owns the ledger: a thread with a SQLite file, that says of an answer that it is recorded when it is. What it
//! keeps is described in `harness/docs/design/ledger.md`. [`Server`] is the API; who answers is a [`Backend`].
//!
//! [`Lineages`] is told what happened (a request arrived, it was answered, it failed) and says what follows from it,
//! as [`Event`]s. No I/O, no clock, no thread: whoever owns it gives it time and keeps what it says. How turns are
//! linked, and by what evidence, is described in `harness/docs/design/turn-linking.md`.

mod answer;
mod api;
mod backend;
mod beginning;
mod claim;
mod digest;
mod headers;
mod ids;
mod keys;
mod kind;
mod ledger;
mod linking;
mod message;
mod openclaw;
mod reaction;
mod recorder;
mod reply;
mod request;
mod trainer;

pub use answer::{StopScanner, Utf8Assembly};
pub use api::{Drained, Server, ServerSettings};
pub use backend::{
    Ask, Backend, BackendError, Begun, Delta, End, Piece, Prompt, Refusal, Sampling, Token, Usage,
};
pub use claim::Evidence;
pub use digest::Digest;
pub use headers::{EPOCH_HEADER, Headers, SESSION_END_HEADER, SESSION_HEADER, TRIGGER_HEADER, TURN_HEADER};
pub use ids::{RequestId, SessionId, TurnId, UserId};
pub use keys::{KeyError, Keys};
pub use kind::{Doubt, SideMark, TurnKind};
pub use ledger::{
    Adapter, AnswerView, Deleted, Deletion, FeedbackView, FileFlaw, Finish, LedgerError, NEUTRAL, NewReward,
    NewSample, NewUpdate, NewVote, NextStateView, Page, Reconciled, RequestView, RewardView, RollBack,
    SampleId, SampleView, SessionView, Taken, TakenSample, Thing, TurnLine, TurnView, UpdateId, UpdateView,
    UserView, VersionView, VoteView, Waiting,
};
pub use linking::{
    Arrival, Closing, EpochEnd, Event, Lineages, LinkConfig, LinkError, Match, NewMessage, NewMessageKind,
    NextState, Unanswered,
};
pub use message::{Message, Role, Standing};
pub use reaction::{Change, Reaction, Thumb};
pub use recorder::{
    Admitted, Clock, Exactness, Export, FeedbackId, FeedbackSource, FeedbackTarget, LedgerEvent, Live,
    NewAnswer, NewChoice, NewFeedback, NewRequest, Recorder, RecorderHandle, RecorderSettings, RedactionRule,
    RuleError, SamplingUsed, SystemClock, VersionSegment,
};
pub use reply::{Reply, ReplyCall};
pub use request::{ChatRequest, MessageFlaw, RequestError};
pub use trainer::{Command, Trainer, TrainerError, TrainerView};
