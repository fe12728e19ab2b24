//! The embedded policy on libtorch: model, tokenizer, engine, learner.
//!
//! The only crate that knows tch. The engine and the learner live on one OS thread each and share nothing but
//! published weights; everything else talks to them through bounded channels.

mod conversation;
mod engine;
mod error;
mod learner;
mod model;
mod policy;
mod preset;
mod runtime;
mod tokenizer;
mod turns;

pub use clawrl_torch_shim::{
    GpuError, GpuMemory, LibtorchVersion, gpu_memory, release_gpu_memory, reset_gpu_peak,
};
pub use conversation::{
    Chat, Context, ConversationError, ConversationState, DEFAULT_TEMPLATE, SampledTurn, demonstrated_tokens,
    segments, written_text, written_turn,
};
pub use engine::{
    AdapterName, Applied, Engine, EngineConfig, EngineError, EngineHandle, EngineObserver, EngineStats,
    EngineWork, GenerateRequest, Generated, PublishError, ScoreRequest, Scored, StreamedToken, TokenStream,
};
pub use error::TorchError;
pub use learner::{
    Activations, AdapterPublisher, Alone, Base, Branch, Checkpoint, CheckpointFacts, Checkpoints, Collective,
    Decay, Latest, LearnerConfig, LearnerSetup, OptimizerConfig, Publisher, Retention, Teacher, TorchLearner,
    Unpublished,
};
pub use model::{
    Adapted, AdapterFiles, Dtype, EndTokens, LayerAdapter, LayerParams, LoraConfig, LoraTarget, LowRank,
    ModelConfig, ModelConfigError, ModelFiles, PackedRows, ParamLayout, ParamSpec, Params, Rope,
    init_adapter, init_params, layer_forward, load_adapter, load_apart, load_merged, load_params,
    policy_files, random_params, rms_norm, save_adapter, save_params,
};
pub use policy::{ReplySampling, TorchPolicy, described_tools};
pub use preset::{Preset, PresetError, PresetRequest, PresetSummary, init_policy};
pub use runtime::{
    CudaFacts, LIBTORCH_VERSION, RuntimeError, RuntimeFacts, configure_threads, probe, synchronize,
};
pub use tokenizer::{
    END, MarkupTokens, PAD, ROLE_TOKENS, Tokenizer, TokenizerError, Training, train_tokenizer,
};

pub use turns::Turns;

/// Where tensors live.
pub use tch::Device;
