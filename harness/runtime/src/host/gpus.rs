//! GPUs of this machine: their memory, and the numbers that variables request.

use std::process::{Command, Stdio};

use clawrl_config::{DeviceWish, GpuRole};

use crate::environment::Variable;
use crate::error::RuntimeError;

/// Memory of each GPU that `nvidia-smi` lists, MiB; empty if there is no such program.
pub(crate) fn memory_mib() -> Vec<u64> {
    let asked = Command::new("nvidia-smi")
        .args(["--query-gpu=memory.total", "--format=csv,noheader,nounits"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    asked.map(|said| listed(&String::from_utf8_lossy(&said.stdout))).unwrap_or_default()
}

fn listed(text: &str) -> Vec<u64> {
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// The numbers of GPUs that variables request.
///
/// # Errors
/// A variable is not a number of GPUs.
pub(crate) fn wish() -> Result<DeviceWish, RuntimeError> {
    wished(|role| Variable::Gpus(role).value())
}

fn wished(value: impl Fn(GpuRole) -> Option<String>) -> Result<DeviceWish, RuntimeError> {
    let mut wish = DeviceWish::default();
    for role in GpuRole::ALL {
        let Some(text) = value(role) else { continue };
        let number = text.trim().parse::<u32>().map_err(|_| {
            let message = format!("{} is no number of GPUs: {text}", role.variable());
            RuntimeError::refused(message).with_help("write a whole number, or unset it")
        })?;
        *wish.of_mut(role) = Some(number);
    }
    Ok(wish)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_lists_is_read() {
        assert_eq!(listed("81559\n81559\n"), [81_559, 81_559]);
        assert_eq!(listed("No devices were found\n"), [0u64; 0]);
        assert_eq!(listed("[N/A]\n"), [0u64; 0]);
    }

    #[test]
    fn variables_are_numbers() {
        let wish = wished(|role| (role == GpuRole::Learner).then(|| " 4 ".to_owned())).unwrap();
        assert_eq!(wish, DeviceWish { learner: Some(4), ..DeviceWish::default() });
        let error = wished(|role| (role == GpuRole::Total).then(|| "all".to_owned())).unwrap_err();
        assert_eq!(error.to_string(), "NUM_GPUS is no number of GPUs: all");
        assert!(matches!(error, RuntimeError::Refused(_)));
    }
}
