//! The arithmetic of learning, as pure functions over slices: segments and masks, advantages, losses with their
//! derivatives, staleness, the forming of batches.
//!
//! Uses the types of `clawrl-core` and no other crate of the workspace: no tensor, file, clock or thread. Code that uses
//! libtorch asks this crate for the derivative of the loss by each log-probability, so the arithmetic is here once.

mod admission;
mod advantage;
mod aggregation;
mod baseline;
mod batch;
mod collapse;
mod curriculum;
mod distillation;
mod divergence;
mod entropy;
mod feedback_batch;
mod gate;
mod imitation;
mod learner;
mod length;
mod lineage;
mod loss;
mod loss_config;
mod overlong;
mod packing;
mod process;
mod ramp;
mod segment;
mod staleness;
mod stream;
mod views;

pub use admission::{Admission, CONSTANT_SPREAD, admit};
pub use advantage::{AdvantageError, AdvantageKind, advantages};
pub use aggregation::{Aggregation, StepTotals, token_weights};
pub use baseline::Baselines;
pub use batch::{Episode, Group, Objective, TeacherView, TrainBatch, TrainSample, ViewPlace};
pub use collapse::{Collapse, CollapseBounds, CollapseGuard, Vitals, repetition};
pub use curriculum::{Curriculum, CurriculumConfig};
pub use distillation::{CandidateLoss, CandidateWeight, Candidates, Distillation, DistillationForm, top_k};
pub use entropy::{EntropyBonus, EntropyControl, EntropyLoss, entropy_loss};
pub use feedback_batch::{FeedbackBatch, FeedbackRules, FeedbackSample, LeftOut, build_samples};
pub use gate::{GateBounds, GateFindings, Rejection, mean_divergence};
pub use imitation::imitation;
pub use learner::{LearnError, Learner, UpdateReport};
pub use length::{LengthControl, LengthCost, Replies};
pub use lineage::Lineage;
pub use loss::{LossFigures, MAX_DROP, SegmentLoss, Terms, policy_gradient};
pub use loss_config::{Clip, KlEstimator, KlPenalty, LossConfigError, PolicyLoss, Surrogate, Weighting};
pub use overlong::{EpisodeLength, Overlong};
pub use packing::{Balance, micro_batches, split_minibatches};
pub use process::process_advantages;
pub use segment::Segment;
pub use staleness::{TokenAges, mask_stale};
pub use stream::{
    BatchStats, Discard, FormedBatch, GroupRanges, GroupStream, MemberResult, RangeError, Schedule,
    StreamConfig, StreamCounts, StreamEnd, StreamError, StreamSnapshot,
};
pub use views::{ViewError, teacher_views, turn_view};
