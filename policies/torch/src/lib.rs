//! The embedded policy on libtorch: model, tokenizer, engine, learner.
//!
//! The only crate that knows tch. The engine and the learner live on one OS thread each and share nothing but
//! published weights; everything else talks to them through bounded channels.

mod error;
mod model;
mod runtime;

pub use clawrl_torch_shim::LibtorchVersion;
pub use error::TorchError;
pub use model::{
    LayerParams, ModelConfig, ModelConfigError, ModelFiles, PackedRows, ParamLayout, ParamSpec, Params, Rope,
    init_params, layer_forward, load_params, rms_norm, save_params,
};
pub use runtime::{CudaFacts, LIBTORCH_VERSION, RuntimeError, RuntimeFacts, configure_threads, probe};
