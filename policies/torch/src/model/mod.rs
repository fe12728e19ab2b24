//! The model: its shape, its parameters in one flat buffer, its files, its layers, and adapters of it.

mod adapted;
mod adapter_files;
mod config;
mod dtype;
mod files;
mod init;
mod layers;
mod lora;
mod packed;
mod params;

pub use adapted::Adapted;
pub use adapter_files::{AdapterFiles, load_adapter, load_apart, load_merged, policy_files, save_adapter};
pub use config::{EndTokens, ModelConfig, ModelConfigError};
pub use dtype::Dtype;
pub use files::{ModelFiles, load_params, save_params};
pub(crate) use files::{load_tensors, save_tensors};
pub use init::{init_params, random_params};
pub use layers::{Rope, layer_forward, rms_norm};
pub use lora::{LayerAdapter, LoraConfig, LoraTarget, LowRank, init_adapter};
pub use packed::PackedRows;
pub(crate) use params::stretches;
pub use params::{LayerParams, ParamLayout, ParamSpec, Params};
