//! The libtorch that was loaded must be the one that this program was built for.

use clawrl_config::Device;
use clawrl_torch::{CudaFacts, RuntimeFacts, probe};

use crate::exit_code::Exit;
use crate::failure::Failure;

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
