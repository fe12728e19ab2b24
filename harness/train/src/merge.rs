//! `clawrl policy merge`: an adapter and the model that it is for, as one model that any program serves.

use std::fs;

use clawrl_torch::{AdapterFiles, Device, ModelFiles, load_merged, policy_files, save_params};

use super::libtorch::check_libtorch;
use clawrl_cli::command::policy::Merge;
use clawrl_cli::exit_code::Exit;
use clawrl_cli::failure::Failure;
use clawrl_cli::log::Log;

/// Does it.
pub(crate) fn merge_adapter(arguments: &Merge, log: &Log) -> Result<Exit, Failure> {
    check_libtorch()?;
    let Merge { adapter, out } = arguments;
    if !AdapterFiles::of(adapter).exist() {
        let message = format!("{} is no adapter: it has no adapter_config.json", adapter.display());
        let help =
            "name the folder `model` of a version that a training with `lora` keeps, or one that PEFT saved";
        return Err(Failure::with_help(Exit::Refused, message, help));
    }
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Results, format!("cannot write {}: {error}", out.display()))
    };
    fs::create_dir_all(out).map_err(failed)?;
    if fs::read_dir(out).map_err(failed)?.next().is_some() {
        let message = format!("{} is not empty", out.display());
        return Err(Failure::with_help(Exit::Refused, message, "name a new folder"));
    }
    let refused = |error: clawrl_torch::TorchError| Failure::new(Exit::Refused, error.to_string());
    let merged = load_merged(adapter, Device::Cpu).map_err(refused)?;
    let written = ModelFiles::of(out);
    policy_files(adapter).map_err(refused)?.copy_texts(&written).map_err(failed)?;
    let saved = written.write_config(merged.layout().config()).and_then(|()| save_params(&written, &merged));
    saved.map_err(|error| Failure::new(Exit::Results, error.to_string()))?;
    log.note(format_args!("{}: {} parameters, in fp32", out.display(), merged.layout().parameters()));
    Ok(Exit::Success)
}
