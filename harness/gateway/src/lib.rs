//! Chat with a policy: an OpenAI-compatible server, the linking of requests to turns with their next states, and the ledger that records
//! them.
//!
//! [`Recorder`] owns the ledger: a thread with a SQLite file that confirms an answer once it is committed. Its contents are described in
//! `harness/docs/design/ledger.md`. [`Server`] is the API in front of a [`Backend`], which answers.
//!
//! [`SessionTracker`] takes events (a request arrived, was answered, or failed) and returns what follows as [`Event`]s. It does no I/O and
//! has no clock or thread; its owner provides the time and stores the result. How turns are linked, and by what evidence, is described in
//! `harness/docs/design/turn-linking.md`.

mod answer;
mod api;
mod backend;
mod claim;
mod cut;
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
    AnswerRequest, Backend, BackendError, Delta, End, Piece, Prompt, Refusal, Sampling, StartedAnswer, Token,
};
pub use claim::Evidence;
pub use digest::Digest;
pub use headers::{EPOCH_HEADER, Headers, SESSION_END_HEADER, SESSION_HEADER, TRIGGER_HEADER, TURN_HEADER};
pub use ids::{RequestId, SessionId, TurnId, UserId};
pub use keys::{KeyError, Keys};
pub use kind::{SideMark, TurnKind, UnknownReason};
pub use ledger::{
    Adapter, AnswerView, Deleted, Deletion, EntityKind, FeedbackView, FileError, Finish, LedgerError,
    NEUTRAL, NewReward, NewSample, NewUpdate, NewVote, NextStateView, Page, Reconciled, RequestView,
    RewardView, RollBack, SampleId, SampleView, SessionView, Taken, TakenSample, TurnLine, TurnView,
    UpdateId, UpdateView, UserView, VersionView, VoteView, Waiting,
};
pub use linking::{
    Arrival, Closing, EpochEnd, Event, LinkConfig, LinkError, Match, NewMessage, NewMessageKind, NextState,
    SessionTracker, Unanswered,
};
pub use message::{HistoryKind, HistoryMessage};
pub use reaction::{Change, Reaction, Thumb};
pub use recorder::{
    Admitted, Clock, Exactness, Export, FeedbackId, FeedbackSource, FeedbackTarget, LedgerChange,
    LedgerEvent, NewAnswer, NewChoice, NewFeedback, NewRequest, Recorder, RecorderHandle, RecorderSettings,
    RedactionRule, RuleError, SamplingUsed, SystemClock, VersionSegment,
};
pub use reply::{Reply, ReplyCall};
pub use request::ChatRequest;
pub use trainer::{Command, Trainer, TrainerError, TrainerView};
