//! `clawrl policy merge`: merges an adapter into its model, as one model that any program can serve.

use std::fs;
use std::path::Path;

use clawrl_torch::{AdapterFiles, Device, ModelFiles, load_merged, policy_files, save_params};

use super::libtorch::check_libtorch;
use clawrl_runtime::training::TrainError;

/// Writes an adapter and its model as one model, in fp32, into a new or empty folder. Returns its number of parameters.
///
/// # Errors
/// `adapter` does not hold an adapter, or `out` is not empty or cannot be written.
pub fn merge_adapter(adapter: &Path, out: &Path) -> Result<u64, TrainError> {
    check_libtorch()?;
    if !AdapterFiles::of(adapter).exist() {
        let message = format!("{} is no adapter: it has no adapter_config.json", adapter.display());
        let help =
            "name the folder `model` of a version that a training with `lora` keeps, or one that PEFT saved";
        return Err(TrainError::refused(message).with_help(help));
    }
    let failed =
        |error: std::io::Error| TrainError::storage(format!("cannot write {}: {error}", out.display()));
    fs::create_dir_all(out).map_err(failed)?;
    if fs::read_dir(out).map_err(failed)?.next().is_some() {
        let message = format!("{} is not empty", out.display());
        return Err(TrainError::refused(message).with_help("name a new folder"));
    }
    let refused = |error: clawrl_torch::TorchError| TrainError::refused(error.to_string());
    let merged = load_merged(adapter, Device::Cpu).map_err(refused)?;
    let written = ModelFiles::of(out);
    policy_files(adapter).map_err(refused)?.copy_texts(&written).map_err(failed)?;
    let saved = written.write_config(merged.layout().config()).and_then(|()| save_params(&written, &merged));
    saved.map_err(|error| TrainError::storage(error.to_string()))?;
    Ok(merged.layout().parameters() as u64)
}
