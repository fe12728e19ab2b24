//! The ledger of chats: a SQLite file, its writes and its queries. One writer ([`Recorder`](crate::Recorder)) owns it; its contents and
//! their lifetime are described in `harness/docs/design/ledger.md`.

mod answers;
mod blobs;
mod contents;
mod deletion;
mod error;
mod events;
mod feedback;
mod file;
mod names;
mod numbers;
mod queries;
mod reconcile;
mod replay;
mod requests;
mod rollback;
mod samples;
mod update_summaries;
mod updates;
mod views;
mod waiting;

pub use deletion::{Deleted, Deletion};
pub use error::{EntityKind, FileError, LedgerError};
pub use reconcile::Reconciled;
pub use rollback::{RollBack, VersionView};
pub use samples::{NEUTRAL, NewReward, NewSample, NewVote, SampleId};
pub use updates::{Adapter, Finish, NewUpdate, Taken, TakenSample, UpdateId};
pub use views::{
    AnswerView, FeedbackView, NextStateView, Page, RequestView, RewardView, SampleView, SessionView,
    TurnLine, TurnView, UpdateView, UserView, VoteView,
};
pub use waiting::Waiting;

pub(crate) use answers::{
    EndedRequest, StoredAnswer, StoredChoice, add as add_answer, fail as fail_request,
    waiting as waiting_request,
};
pub(crate) use blobs::{ids, logprobs};
pub(crate) use contents::{ContentOwner, DeltaBases, StoredBody, StoredPrompt};
pub(crate) use deletion::delete;
pub(crate) use events::{add_all as add_events, add_link_input, close as close_session, set_answered};
pub(crate) use feedback::{StoredFeedback, add as add_feedback, target as feedback_target};
pub(crate) use file::{Lock, create, open_reader, open_writer};
pub(crate) use queries::{body, outline, session, sessions, turn, turn_after, turn_owner, user};
pub(crate) use reconcile::reconcile;
pub(crate) use replay::{ReplayResult, owner as session_owner, replay, since_epoch};
pub(crate) use requests::{
    Linked, StoredRequest, add as add_request, add_user, next_number, reserve_numbers,
};
pub(crate) use rollback::{GIVEN_UP, learners, roll_back, versions};
pub(crate) use samples::{add_sample, add_vote, drop_sample, set_reward};
pub(crate) use update_summaries::{UpdateMetrics, UpdateSummary, update_metrics, update_summaries};
pub(crate) use updates::{finish, leave_out, take, users_of};
pub(crate) use waiting::{sharing, unjudged, waiting};
