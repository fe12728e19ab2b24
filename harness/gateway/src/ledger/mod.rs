//! Chat's record and ledger: a SQLite file, what is written to it and what is read from it. One writer
//! ([`Recorder`](crate::Recorder)) owns it; what is kept, and for how long, is described in
//! `harness/docs/design/ledger.md`.

mod answers;
mod arrivals;
mod blobs;
mod contents;
mod deletion;
mod error;
mod events;
mod feedback;
mod file;
mod learning;
mod lessons;
mod numbers;
mod reading;
mod replay;
mod rollback;
mod trained;
mod updates;
mod views;
mod waiting;
mod words;

pub use deletion::{Deleted, Deletion};
pub use error::{FileFlaw, LedgerError, Thing};
pub use learning::{NEUTRAL, NewReward, NewSample, NewVote, SampleId};
pub use rollback::{RollBack, VersionView};
pub use trained::Reconciled;
pub use updates::{Adapter, Finish, NewUpdate, Taken, TakenSample, UpdateId};
pub use views::{
    AnswerView, FeedbackView, NextStateView, Page, RequestView, RewardView, SampleView, SessionView,
    TurnLine, TurnView, UpdateView, UserView, VoteView,
};
pub use waiting::Waiting;

pub(crate) use answers::{
    EndedRequest, KeptAnswer, KeptChoice, add as add_answer, fail as fail_request, waiting as waiting_request,
};
pub(crate) use arrivals::{
    KeptRequest, Linked, add as add_request, add_user, next_number, set_numbers_aside,
};
pub(crate) use blobs::{ids, logprobs};
pub(crate) use contents::{Belongs, KeptBody, KeptPrompt, Lasts};
pub(crate) use deletion::delete;
pub(crate) use events::{add_all as add_events, add_happening, close as close_session, set_answered};
pub(crate) use feedback::{KeptFeedback, add as add_feedback, target as feedback_target};
pub(crate) use file::{Lock, create, open_reader, open_writer};
pub(crate) use learning::{add_sample, add_vote, drop_sample, set_reward};
pub(crate) use lessons::{Figures, Lesson, figures, lessons};
pub(crate) use reading::{body, outline, session, sessions, turn, turn_after, turn_owner, user};
pub(crate) use replay::{Replayed, owner as session_owner, replay, since_epoch};
pub(crate) use rollback::{GIVEN_UP, learners, roll_back, versions};
pub(crate) use trained::reconcile;
pub(crate) use updates::{finish, leave_out, take, users_of};
pub(crate) use waiting::{sharing, unjudged, waiting};
