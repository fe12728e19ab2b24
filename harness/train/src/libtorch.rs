//! What the command line asks of a program that is linked to libtorch, and the libtorch that was loaded, which must be the
//! one that this program was built for.

use std::path::Path;
use std::sync::Arc;

use clawrl_cli::command::eval::Personal;
use clawrl_cli::command::policy::{Diff, Init, Merge, Rollback, Versions};
use clawrl_cli::command::train::Arguments;
use clawrl_cli::exit_code::Exit;
use clawrl_cli::failure::Failure;
use clawrl_cli::log::Log;
use clawrl_cli::training::{ChatModel, Training};
use clawrl_config::Device;
use clawrl_core::Policy;
use clawrl_torch::{CudaFacts, RuntimeFacts, probe};

use super::chat::embedded_model;
use super::command::run_train;
use super::embedded::embedded_policy;
use super::merge::merge_adapter;
use super::personal::evaluate_personal;
use super::policy_init::init_policy;
use super::versions::{diff_versions, list_versions, roll_back};

/// Training and policies on libtorch.
#[derive(Debug, Clone, Copy)]
pub struct Libtorch;

impl Training for Libtorch {
    fn train(&self, arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
        run_train(arguments, log)
    }

    fn init_policy(&self, init: &Init, log: &Log) -> Result<Exit, Failure> {
        init_policy(init, log)
    }

    fn list_versions(&self, versions: &Versions, log: &Log) -> Result<Exit, Failure> {
        list_versions(versions, log)
    }

    fn roll_back(&self, rollback: &Rollback, log: &Log) -> Result<Exit, Failure> {
        roll_back(rollback, log)
    }

    fn diff_versions(&self, diff: &Diff, log: &Log) -> Result<Exit, Failure> {
        diff_versions(diff, log)
    }

    fn merge_adapter(&self, merge: &Merge, log: &Log) -> Result<Exit, Failure> {
        merge_adapter(merge, log)
    }

    fn evaluate_personal(&self, personal: &Personal, log: &Log) -> Result<Exit, Failure> {
        evaluate_personal(personal, log)
    }

    fn policy(
        &self,
        folder: &Path,
        temperature_milli: u32,
        max_new_tokens: u32,
    ) -> Result<Arc<dyn Policy>, Failure> {
        embedded_policy(folder, temperature_milli, max_new_tokens)
    }

    fn chat_model(&self, folder: &Path, name: &str) -> Result<Box<dyn ChatModel>, Failure> {
        embedded_model(folder, name)
    }
}

/// Looks at it; before anything else of it is used, and before anything is written.
///
/// # Errors
/// Another version, as one that LD_LIBRARY_PATH names.
pub(super) fn check_libtorch() -> Result<(), Failure> {
    facts().map(|_| ())
}

/// GPUs that libtorch sees; none are looked for where all runs on the processor.
///
/// # Errors
/// With `cuda`, that there is none, and why.
pub(super) fn gpus(device: Device) -> Result<u32, Failure> {
    match (device, &facts()?.cuda) {
        (Device::Cpu, _) | (Device::Auto, CudaFacts::Absent { .. }) => Ok(0),
        (_, CudaFacts::Available { devices }) => Ok(u32::try_from(*devices).unwrap_or(u32::MAX)),
        (Device::Cuda, CudaFacts::Absent { reason }) => {
            let message = format!("`device: cuda` needs an NVIDIA GPU: {reason}");
            let help = "write `device: cpu`, or `auto` for a GPU where there is one";
            Err(Failure::with_help(Exit::Environment, message, help))
        }
    }
}

fn facts() -> Result<&'static RuntimeFacts, Failure> {
    let refused = |error: clawrl_torch::RuntimeError| {
        Failure::with_help(Exit::Environment, error.to_string(), "`ci/setup.sh` installs the right one")
    };
    probe().map_err(refused)
}
