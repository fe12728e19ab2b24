//! Model loaders, and the check that the loaded libtorch is the version that this program was built for.

use std::path::Path;
use std::sync::Arc;

use clawrl_config::Device;
use clawrl_core::Policy;
use clawrl_runtime::training::TrainError;
use clawrl_runtime::{PolicyLoader, RuntimeError};
use clawrl_serve::{ChatModel, ChatModelLoader};
use clawrl_torch::{CudaFacts, RuntimeFacts, probe};

use super::chat::embedded_model;
use super::embedded::embedded_policy;

/// Loads policies and chat models that run on libtorch.
#[derive(Debug, Clone, Copy)]
pub struct Libtorch;

impl PolicyLoader for Libtorch {
    fn load_policy(
        &self,
        folder: &Path,
        temperature_milli: u32,
        max_new_tokens: u32,
    ) -> Result<Arc<dyn Policy>, RuntimeError> {
        embedded_policy(folder, temperature_milli, max_new_tokens)
    }
}

impl ChatModelLoader for Libtorch {
    fn load_chat_model(&self, folder: &Path, name: &str) -> Result<Box<dyn ChatModel>, TrainError> {
        embedded_model(folder, name)
    }
}

/// Checks the version. Call before any other use of libtorch, and before anything is written.
///
/// # Errors
/// Another version was loaded, for example from LD_LIBRARY_PATH.
pub(super) fn check_libtorch() -> Result<(), RuntimeError> {
    facts().map(|_| ())
}

/// Number of GPUs that libtorch sees; 0 without a check if everything runs on the CPU.
///
/// # Errors
/// With `cuda`, no GPU is usable; the message has the reason.
pub(super) fn gpus(device: Device) -> Result<u32, TrainError> {
    match (device, &facts()?.cuda) {
        (Device::Cpu, _) | (Device::Auto, CudaFacts::Absent { .. }) => Ok(0),
        (_, CudaFacts::Available { devices }) => Ok(u32::try_from(*devices).unwrap_or(u32::MAX)),
        (Device::Cuda, CudaFacts::Absent { reason }) => {
            let message = format!("`device: cuda` needs an NVIDIA GPU: {reason}");
            let help = "write `device: cpu`, or `auto` for a GPU where there is one";
            Err(TrainError::unavailable(message).with_help(help))
        }
    }
}

fn facts() -> Result<&'static RuntimeFacts, RuntimeError> {
    let refused = |error: clawrl_torch::RuntimeError| {
        RuntimeError::unavailable(error.to_string()).with_help("`ci/setup.sh` installs the right one")
    };
    probe().map_err(refused)
}
