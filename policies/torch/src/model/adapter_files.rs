//! An adapter's folder in the format of PEFT: `adapter_config.json` and `adapter_model.safetensors`.
//!
//! I1. The invariants of a model's files hold. A configuration that asks for more than low-rank factors of the known
//! matrices is refused by name, never ignored.
//!
//! Source: `LoraConfig` and `save_pretrained` of PEFT 0.21. Deviations: the path of the base model may be relative to the
//! adapter's folder, so that both can be moved together; PEFT resolves a relative one against its working directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tch::{Device, Kind};

use super::config::ModelConfig;
use super::files::{
    ModelFiles, load_params, load_tensors, save_tensors, unreadable, unwritable, write_atomically,
};
use super::lora::{LoraConfig, LoraTarget};
use super::params::{ParamLayout, Params};
use crate::error::TorchError;

/// The files of an adapter's folder.
#[derive(Debug, Clone)]
pub struct AdapterFiles {
    folder: PathBuf,
}

/// `adapter_config.json`. Other entries are refused if they ask for anything, except for [`HARMLESS`] ones.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    peft_type: String,
    #[serde(default)]
    task_type: Option<String>,
    base_model_name_or_path: Option<String>,
    r: i64,
    lora_alpha: f64,
    target_modules: Vec<LoraTarget>,
    #[serde(default = "none")]
    bias: String,
    #[serde(default)]
    lora_dropout: f64,
    #[serde(default)]
    fan_in_fan_out: bool,
    #[serde(default)]
    inference_mode: bool,
    #[serde(flatten)]
    more: serde_json::Map<String, Value>,
}

/// Entries that do not affect the result of an adapter.
const HARMLESS: [&str; 8] = [
    "auto_mapping",
    "ensure_weight_tying",
    "layers_pattern",
    "megatron_config",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "revision",
];
/// Initialisation of the factors that leaves the model's matrices unchanged. Others (`pissa`, `olora`, `corda`) subtract
/// the initial factors from the matrices.
const INIT: &str = "init_lora_weights";
const HARMLESS_INITS: [&str; 3] = ["gaussian", "eva", "orthogonal"];

fn none() -> String {
    "none".to_owned()
}

impl AdapterFiles {
    /// The files of this folder, which may not exist yet.
    #[must_use]
    pub fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// `adapter_config.json`.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.folder.join("adapter_config.json")
    }

    /// `adapter_model.safetensors`.
    #[must_use]
    pub fn weights(&self) -> PathBuf {
        self.folder.join("adapter_model.safetensors")
    }

    /// Whether the folder contains an adapter.
    #[must_use]
    pub fn exist(&self) -> bool {
        self.config().exists()
    }

    /// Folder of the adapter's base model.
    ///
    /// # Errors
    /// [`TorchError::Model`] if the configuration names none, or it does not exist.
    pub fn base(&self) -> Result<PathBuf, TorchError> {
        let path = self.config();
        let Some(name) = self.read()?.base_model_name_or_path else {
            return Err(unreadable(
                &path,
                &"it does not say which model it is for (base_model_name_or_path)",
            ));
        };
        let beside = self.folder.join(&name);
        let found = [beside, PathBuf::from(&name)].into_iter().find(|folder| folder.is_dir());
        found.ok_or_else(|| unreadable(&path, &format!("the model that it is for is not here: `{name}`")))
    }

    /// The adapter's configuration.
    ///
    /// # Errors
    /// [`TorchError::Model`].
    pub fn read_config(&self) -> Result<LoraConfig, TorchError> {
        let path = self.config();
        let written = self.read()?;
        let refused =
            |what: String| Err(unreadable(&path, &format!("it asks for {what}, which is not supported")));
        if written.peft_type != "LORA" {
            return refused(format!("peft_type `{}`", written.peft_type));
        }
        if written.bias != "none" {
            return refused(format!("bias `{}`", written.bias));
        }
        if written.fan_in_fan_out {
            return refused("fan_in_fan_out".to_owned());
        }
        let asks = |(name, value): &(&String, &Value)| match value {
            _ if HARMLESS.contains(&name.as_str()) => false,
            Value::Bool(true) if *name == INIT => false,
            Value::String(init) if *name == INIT => !HARMLESS_INITS.contains(&init.as_str()),
            Value::Null | Value::Bool(false) => false,
            Value::Array(items) => !items.is_empty(),
            Value::Object(items) => !items.is_empty(),
            _ => true,
        };
        if let Some((name, value)) = written.more.iter().find(asks) {
            return refused(format!("{name}: {value}"));
        }
        let mut targets = written.target_modules;
        targets.sort_unstable();
        targets.dedup();
        let lora = LoraConfig { rank: written.r, alpha: written.lora_alpha, targets };
        lora.check().map_err(|error| unreadable(&path, &error))?;
        Ok(lora)
    }

    fn read(&self) -> Result<Written, TorchError> {
        let path = self.config();
        let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?;
        serde_json::from_str(&text).map_err(|error| unreadable(&path, &error))
    }
}

/// Reads an adapter, stored in any floating-point type, as fp32.
///
/// # Errors
/// [`TorchError::Model`] when a factor is missing, has another shape than one for this model, is not finite, or has no place.
pub fn load_adapter(files: &AdapterFiles, model: &ModelConfig, device: Device) -> Result<Params, TorchError> {
    let layout = ParamLayout::adapter(model.clone(), files.read_config()?);
    load_tensors(&files.weights(), Arc::new(layout), device)
}

/// Writes an adapter in fp32. `base` is the path of its base model, relative to its folder.
///
/// # Errors
/// [`TorchError::Model`] if these are not an adapter's parameters, or cannot be written.
pub fn save_adapter(files: &AdapterFiles, params: &Params, base: &str) -> Result<(), TorchError> {
    let lora = params.layout().lora();
    let lora = lora.ok_or_else(|| TorchError::Model("a whole model is no adapter".to_owned()))?;
    let path = files.config();
    let written = Written {
        peft_type: "LORA".to_owned(),
        task_type: Some("CAUSAL_LM".to_owned()),
        base_model_name_or_path: Some(base.to_owned()),
        r: lora.rank,
        lora_alpha: lora.alpha,
        target_modules: lora.targets.clone(),
        bias: none(),
        lora_dropout: 0.0,
        fan_in_fan_out: false,
        inference_mode: true,
        more: serde_json::Map::new(),
    };
    let text = serde_json::to_string_pretty(&written).map_err(|error| unwritable(&path, &error))?;
    write_atomically(&path, |temporary| {
        fs::write(temporary, format!("{text}\n")).map_err(|error| unwritable(&path, &error))
    })?;
    save_tensors(&files.weights(), params, Kind::Float)
}

/// The files of a policy's folder; an adapter's missing files are taken from its base model.
///
/// # Errors
/// [`TorchError::Model`].
pub fn policy_files(folder: &Path) -> Result<ModelFiles, TorchError> {
    let (own, adapter) = (ModelFiles::of(folder), AdapterFiles::of(folder));
    if adapter.exist() { Ok(own.or_else(adapter.base()?)) } else { Ok(own) }
}

/// The model of a folder; for an adapter's folder, the base model with the adapter merged.
///
/// # Errors
/// [`TorchError::Model`].
pub fn load_merged(folder: &Path, device: Device) -> Result<Params, TorchError> {
    let (model, adapter) = load_apart(folder, device)?;
    adapter.map_or(Ok(model.share()), |adapter| model.merged(&adapter))
}

/// The model of a folder; for an adapter's folder, the base model and the adapter.
///
/// # Errors
/// [`TorchError::Model`].
pub fn load_apart(folder: &Path, device: Device) -> Result<(Params, Option<Params>), TorchError> {
    let files = AdapterFiles::of(folder);
    if !files.exist() {
        return Ok((load_params(&ModelFiles::of(folder), device)?, None));
    }
    let model = load_params(&ModelFiles::of(&files.base()?), device)?;
    let adapter = load_adapter(&files, model.layout().config(), device)?;
    Ok((model, Some(adapter)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{init_adapter, init_params, save_params};

    fn folder() -> (tempfile::TempDir, AdapterFiles, Params) {
        let folder = tempfile::tempdir().unwrap();
        let config = ModelConfig::tiny(512, 0);
        let base = ModelFiles::of(&folder.path().join("base"));
        fs::create_dir(folder.path().join("base")).unwrap();
        fs::create_dir(folder.path().join("adapter")).unwrap();
        base.write_config(&config).unwrap();
        let model = init_params(Arc::new(ParamLayout::new(config.clone())), 7, Device::Cpu).unwrap();
        save_params(&base, &model).unwrap();
        let lora = LoraConfig { rank: 4, alpha: 8.0, targets: vec![LoraTarget::QProj, LoraTarget::DownProj] };
        let adapter = init_adapter(&config, &lora, 3, Device::Cpu).unwrap();
        let _ = adapter.flat().shallow_clone().f_add_scalar_(0.01).unwrap();
        let files = AdapterFiles::of(&folder.path().join("adapter"));
        save_adapter(&files, &adapter, "../base").unwrap();
        (folder, files, adapter)
    }

    #[test]
    fn what_is_written_is_read() {
        let (folder, files, adapter) = folder();
        let (model, read) = load_apart(&folder.path().join("adapter"), Device::Cpu).unwrap();
        let read = read.unwrap();
        assert_eq!(read.layout(), adapter.layout());
        for spec in adapter.layout().specs() {
            assert!(read.view(spec).unwrap().equal(&adapter.view(spec).unwrap()), "{}", spec.name);
        }
        assert_eq!(files.base().unwrap(), folder.path().join("adapter/../base"));
        let merged = load_merged(&folder.path().join("adapter"), Device::Cpu).unwrap();
        assert!(merged.flat().equal(model.merged(&adapter).unwrap().flat()));
        assert!(load_merged(&folder.path().join("base"), Device::Cpu).unwrap().flat().equal(model.flat()));
    }

    #[test]
    fn what_is_not_computed_is_refused_by_name() {
        let check = |name: &str, value: Value, expected: Option<&str>| {
            let (_folder, files, _) = folder();
            let text = fs::read_to_string(files.config()).unwrap();
            let mut config: Value = serde_json::from_str(&text).unwrap();
            config[name] = value;
            fs::write(files.config(), config.to_string()).unwrap();
            let error = load_adapter(&files, &ModelConfig::tiny(512, 0), Device::Cpu).err();
            let error = error.map(|error| error.to_string());
            match expected {
                Some(expected) => {
                    assert!(error.as_ref().is_some_and(|error| error.contains(expected)), "{error:?}")
                }
                None => assert_eq!(error, None),
            }
        };
        check("use_dora", Value::Bool(false), None);
        check("rank_pattern", serde_json::json!({}), None);
        check("megatron_core", Value::String("megatron.core".to_owned()), None);
        check("use_dora", Value::Bool(true), Some("use_dora"));
        check("use_rslora", Value::Bool(true), Some("use_rslora"));
        check("rank_pattern", serde_json::json!({"q_proj": 2}), Some("rank_pattern"));
        check("modules_to_save", serde_json::json!(["lm_head"]), Some("modules_to_save"));
        check("init_lora_weights", Value::Bool(true), None);
        check("init_lora_weights", Value::String("gaussian".to_owned()), None);
        check("init_lora_weights", Value::String("pissa".to_owned()), Some("init_lora_weights: \"pissa\""));
        check("a_later_invention", Value::from(3), Some("a_later_invention: 3"));
        check("peft_type", Value::String("IA3".to_owned()), Some("IA3"));
        check("bias", Value::String("all".to_owned()), Some("bias `all`"));
        check("target_modules", serde_json::json!(["lm_head"]), Some("lm_head"));
        check("r", Value::from(5), Some("has shape [4, 128], not [5, 128]"));
        check("target_modules", serde_json::json!(["q_proj"]), Some("has no place in this model"));
        check(
            "target_modules",
            serde_json::json!(["q_proj", "k_proj", "down_proj"]),
            Some("there is no tensor"),
        );
    }

    /// A change below bf16's resolution survives writing and reading a merged model.
    #[test]
    fn a_merged_model_is_kept_in_fp32_whatever_its_base_is_kept_in() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = ModelConfig::tiny(512, 0);
        "bfloat16".clone_into(&mut config.dtype);
        let model = init_params(Arc::new(ParamLayout::new(config.clone())), 7, Device::Cpu).unwrap();
        let lora = LoraConfig { rank: 2, alpha: 2.0, targets: vec![LoraTarget::OProj] };
        let adapter = init_adapter(&config, &lora, 3, Device::Cpu).unwrap();
        let layer = adapter.layer_adapter(0).unwrap();
        let _ = layer.of(LoraTarget::OProj).unwrap().b.shallow_clone().f_fill_(1e-5).unwrap();
        let merged = model.merged(&adapter).unwrap();
        let files = ModelFiles::of(folder.path());
        files.write_config(merged.layout().config()).unwrap();
        save_params(&files, &merged).unwrap();
        let read = load_params(&files, Device::Cpu).unwrap();
        assert!(read.flat().equal(merged.flat()) && !read.flat().equal(model.flat()));
        // Models of two types are compared by what they hold.
        let apart = read.distances(&model).unwrap();
        assert!(apart.iter().any(|(part, apart)| part == "self_attn.o_proj" && *apart > 0.0), "{apart:?}");
    }

    #[test]
    fn each_file_that_an_adapter_lacks_is_its_models() {
        let (folder, ..) = folder();
        let (own, base) = (folder.path().join("adapter"), folder.path().join("base"));
        fs::write(own.join("tokenizer.json"), "{}").unwrap();
        fs::write(base.join("tokenizer.json"), "[]").unwrap();
        fs::write(base.join("generation_config.json"), "{}").unwrap();
        let files = policy_files(&own).unwrap();
        assert_eq!(files.tokenizer(), own.join("tokenizer.json"));
        for of_base in [files.generation_config(), files.config()] {
            assert_eq!(of_base.parent().unwrap(), own.join("../base"));
        }
        assert_eq!(files.read_config().unwrap(), ModelConfig::tiny(512, 0));
        assert_eq!(policy_files(&base).unwrap().tokenizer(), base.join("tokenizer.json"));
    }

    #[test]
    fn a_base_that_is_not_there_is_named() {
        let (folder, files, adapter) = folder();
        fs::remove_dir_all(folder.path().join("base")).unwrap();
        let error = load_apart(&folder.path().join("adapter"), Device::Cpu).unwrap_err().to_string();
        assert!(error.contains("`../base`"), "{error}");
        // A model of another shape.
        let other = ModelConfig { hidden_size: 64, ..ModelConfig::tiny(512, 0) };
        let error = load_adapter(&files, &other, Device::Cpu).unwrap_err().to_string();
        assert!(error.contains("has shape"), "{error}");
        assert!(save_adapter(&files, &adapter.copy().unwrap(), "x").is_ok());
    }
}
