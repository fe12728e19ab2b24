//! Suites and train files of ClawRL: the only crate that knows YAML.
//!
//! Every setting has two forms. The file form keeps the written values with their places ([`json_schema`] describes it to
//! editors); reading stops at the first value of a wrong shape. The checked form is used by runs. One checker converts
//! the first to the second and reports all mistakes at once.
//!
//! [`load_suite`] checks a suite; the [`Suite`] keeps the file form, because its strings may be templates. [`resolve_plan`]
//! chooses values, renders the templates, checks the results and makes a [`clawrl_core::RunPlan`] for given options and
//! host.
//!
//! A train file becomes a [`TrainPlan`] ([`load_train`]), from which [`TrainTasks`] makes the run plans of a training:
//! demonstrations, groups to learn from, evaluations.
//!
//! I1. The same files, options and seed give the same plan on every machine.
//! I2. Every problem of a file names file, line and column, labels the span and says what to write instead.
//! I3. Nothing outside a suite's folder is read for it. A train file names suites and a policy elsewhere.
//!
//! A gate file contains requirements on an agent ([`load_ci`]); it names suites and a policy.
//!
//! A policy file describes requests to a model server ([`load_policy`]); it becomes a part of a run plan. An agent file
//! names a program that runs attempts, and its inputs ([`load_agent`]).
//!
//! Errors: [`ConfigError`], a list of [`Problem`]s, both diagnostics of miette. Pure but for reading files and
//! for [`new_suite`], [`new_task`] and [`new_train`]; nothing to cancel.

mod agent_file;
mod bounds;
mod capacity;
mod check;
mod ci;
mod credential;
mod decode;
mod dialect;
mod document;
mod draw;
mod file;
mod fixture;
mod new_train;
mod numbers;
mod parse;
mod placement;
mod policy_file;
mod problem;
mod read;
mod resolve;
mod sandbox;
mod schema;
mod select;
mod source;
mod starter;
mod suggest;
mod suite;
mod summary;
mod text;
mod train;
mod value;

pub use agent_file::{AgentFilePlan, load_agent};
pub use capacity::{BrowserPlace, HostCapacity, Load, Resource, ResourceBound};
pub use ci::{CiBudget, CiCompleteness, CiMetric, CiPlan, CiSuite, MetricKind, Repeats, load_ci};
pub use document::{Entry, Node, NodeValue, literal, read_yaml, yaml_text};
pub use fixture::stays_inside;
pub use new_train::new_train;
pub use policy_file::load_policy;
pub use problem::{ConfigError, Problem, ProblemReport};
pub use read::refuse_unnameable;
pub use resolve::{PlanOptions, TaskChoice, resolve_plan};
pub use schema::{
    agent_schema, chat_schema, ci_schema, json_schema, policy_schema, schema_files, train_schema,
};
pub use source::{Source, Span};
pub use starter::{NewTask, StarterEnv, new_suite, new_task};
pub use suite::{Family, Suite, load_suite, load_suites};
pub use summary::{ConcurrencySummary, FamilySummary, PlanSummary, SuiteSummary, describe_plan};
pub use train::{
    Advantage, Aggregation, CandidateWeight, ChatObjective, ChatPlan, CheckpointPlan, CurriculumPlan, Device,
    DeviceError, DeviceSplit, DeviceWish, DistillationPlan, Dtype, EnginePlan, EntropyPlan, EvaluationPlan,
    GatePlan, GpuRole, GuardPlan, HeldOutGatePlan, HintSource, HintedEpisodes, IcePop, Importance,
    JudgingPlan, KeptActivations, KlEstimator, KlPlan, LengthPlan, LoraPlan, LoraTarget, LossPlan,
    MemoryBudget, MemoryNeeds, MemoryPlace, MemoryRow, ModelShape, Objective, OptimizerPlan, OverlongKind,
    OverlongPlan, PolicySource, Preset, RemoteTeacherPlan, Reward, RlPlan, RulePlan, RuleTarget, Sampling,
    Schedule, Surrogate, Teacher, TrainFamily, TrainLimits, TrainPlan, TrainRun, TrainSetting, TrainSuite,
    TrainSummary, TrainTasks, WarmStartPlan, is_train_file, is_word_char, load_chat, load_train,
    load_train_with, split_devices,
};
