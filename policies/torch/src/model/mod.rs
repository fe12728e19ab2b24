//! The model: its shape, its parameters in one flat buffer, its files, and its layers.

mod config;
mod files;
mod init;
mod layers;
mod packed;
mod params;

pub use config::{ModelConfig, ModelConfigError};
pub use files::{ModelFiles, load_params, save_params};
pub(crate) use files::{load_tensors, save_tensors};
pub use init::init_params;
pub use layers::{Rope, layer_forward, rms_norm};
pub use packed::PackedRows;
pub use params::{LayerParams, ParamLayout, ParamSpec, Params};
