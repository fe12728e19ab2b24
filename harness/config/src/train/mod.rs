//! Trainings: file form, checks, and plan form of the train file; and the run plans of a training.
//!
//! Train files are read like suites. The file form keeps the place of every value ([`crate::train_schema`] describes it to
//! editors). [`load_train`] reports all mistakes at once and returns a [`TrainPlan`] with every default filled in. The plan
//! is stored beside the results and is the only input of a resume. [`TrainTasks`] then loads the suites and lays out slots.

mod chat;
mod check;
mod check_loss;
mod check_rl;
mod curriculum;
mod devices;
mod distillation;
mod file;
mod gate;
mod importance;
mod judging;
mod layout;
mod length;
mod lora;
mod memory;
mod overlong;
mod plan;
mod rota;
mod settings;
mod summary;
mod tasks;
mod teacher;

pub(crate) use chat::ChatFile;
pub use chat::{ChatObjective, ChatPlan, load_chat};
pub use check::{is_train_file, load_train, load_train_with};
pub use curriculum::CurriculumPlan;
pub use devices::{DeviceError, DeviceSplit, DeviceWish, GpuRole, split_devices};
pub use distillation::{CandidateWeight, DistillationPlan, HintSource, HintedEpisodes, Teacher};
pub(crate) use file::TrainFile;
pub use gate::{GatePlan, HeldOutGatePlan};
pub use judging::{JudgingPlan, RulePlan, RuleTarget};
pub use layout::TrainRun;
pub use length::LengthPlan;
pub use lora::{LoraPlan, LoraTarget};
pub use memory::{MemoryBudget, MemoryNeeds, MemoryPlace, MemoryRow, ModelShape};
pub use overlong::{OverlongKind, OverlongPlan};
pub use plan::{
    Advantage, Aggregation, CheckpointPlan, Device, Dtype, EnginePlan, EntropyPlan, EvaluationPlan,
    GuardPlan, IcePop, Importance, KeptActivations, KlEstimator, KlPlan, LossPlan, Objective, OptimizerPlan,
    PolicySource, Preset, Reward, RlPlan, Sampling, Schedule, Surrogate, TrainLimits, TrainPlan, TrainSuite,
    WarmStartPlan,
};
pub use settings::TrainSetting;
pub use summary::{TrainFamily, TrainSummary};
pub use tasks::{TrainTasks, is_word_char};
pub use teacher::RemoteTeacherPlan;
