//! Resource check of a training: assigns GPUs and estimates memory.

use clawrl_config::{
    ConfigError, Device, DeviceError, DeviceSplit, MemoryBudget, MemoryNeeds, MemoryPlace, ModelShape,
    TrainPlan, split_devices,
};

use super::{capacity, facts, gpus};
use crate::error::RuntimeError;

/// Assigns the `there` GPUs of this machine to roles. Variables set what the train file does not; they are ignored if everything
/// runs on the CPU.
///
/// # Errors
/// The assignment is impossible; [`RuntimeError::Unavailable`] if there is no GPU.
pub fn split(plan: &TrainPlan, there: u32) -> Result<DeviceSplit, RuntimeError> {
    if plan.engine.device == Device::Cpu {
        return Ok(DeviceSplit::default());
    }
    let wish = gpus::wish()?;
    let split = plan.devices.or(wish).and_then(|wish| split_devices(plan.engine.device, wish, there));
    let split = split.and_then(|split| split.check_built().map(|()| split));
    split.map_err(|error| refused(&error))
}

/// The error of an impossible assignment.
fn refused(error: &DeviceError) -> RuntimeError {
    let message = error.to_string();
    let error_of =
        if *error == DeviceError::NoGpu { RuntimeError::unavailable } else { RuntimeError::refused };
    error_of(message).with_help(error.help())
}

/// Number of GPUs that the driver lists.
pub fn gpu_count() -> u32 {
    u32::try_from(gpus::memory_mib().len()).unwrap_or(u32::MAX)
}

/// Describes the devices of learner and sampler in one line.
pub fn who_where(split: &DeviceSplit) -> String {
    let place = |gpus: &std::ops::Range<u32>| match gpus.len() {
        0 => "the processor".to_owned(),
        1 => format!("GPU {}", gpus.start),
        _ => format!("GPUs {} to {}", gpus.start, gpus.end - 1),
    };
    let (learner, engine) = (place(&split.learner), place(&split.engine));
    if learner == engine {
        return format!("learner and engine on {learner}");
    }
    format!("learner on {learner}, engine on {engine}")
}

/// Estimates the memory of a training, and refuses one that does not fit.
///
/// # Errors
/// The policy's shape cannot be read, or memory is insufficient; the message contains the whole table.
pub fn budget(plan: &TrainPlan, split: &DeviceSplit, concurrency: u32) -> Result<MemoryBudget, RuntimeError> {
    let shape = ModelShape::of(&plan.policy)?;
    let needs = MemoryNeeds { plan, shape, split, concurrency, cores: facts::cpus() };
    let budget = needs.budget();
    let gpus = if split.learner.is_empty() { Vec::new() } else { gpus::memory_mib() };
    for place in budget.places() {
        let available = match place {
            MemoryPlace::Processor => Some(capacity::memory_available_mib()),
            // libtorch may number GPUs differently from the driver, so the smallest memory counts for all.
            MemoryPlace::Gpu(_) => gpus.iter().copied().min(),
        };
        let shortage = available.and_then(|mib| needs.shortage(place, mib.saturating_mul(1 << 20)));
        if let Some(shortage) = shortage {
            return Err(ConfigError::from(shortage).into());
        }
    }
    Ok(budget)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_computes_where() {
        let split = |learner, engine| DeviceSplit { learner, engine, judge: 0..0 };
        assert_eq!(who_where(&DeviceSplit::default()), "learner and engine on the processor");
        assert_eq!(who_where(&split(0..1, 1..1)), "learner on GPU 0, engine on the processor");
        assert_eq!(who_where(&split(0..2, 2..3)), "learner on GPUs 0 to 1, engine on GPU 2");
        assert_eq!(who_where(&split(0..1, 0..1)), "learner and engine on GPU 0");
    }

    #[test]
    fn a_machine_without_a_gpu_lacks_something_and_a_wrong_wish_is_refused() {
        assert!(matches!(refused(&DeviceError::NoGpu), RuntimeError::Unavailable(_)));
        assert!(matches!(refused(&DeviceError::EngineOnGpu), RuntimeError::Refused(_)));
    }
}
