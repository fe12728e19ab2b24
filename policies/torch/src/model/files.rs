//! A model's folder in the format of Hugging Face: `config.json`, and `model.safetensors` or the shards that
//! `model.safetensors.index.json` lists.
//!
//! I1. A file is either complete or absent: it is written under a temporary name, synced and renamed. I2. Files are checked
//! on reading: every parameter is present, has its shape and is finite, and there are no others.
//!
//! Errors: [`TorchError::Model`] names the file and the tensor.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::Deserialize;
use tch::{Device, Kind, Tensor};

use super::config::ModelConfig;
use super::params::{ParamLayout, Params};
use crate::error::TorchError;

/// The files of a model's folder.
#[derive(Debug, Clone)]
pub struct ModelFiles {
    folder: PathBuf,
    /// Folder for files that this one lacks.
    fallback: Option<PathBuf>,
}

/// The used fields of an index of shards.
#[derive(Deserialize)]
struct Shards {
    weight_map: HashMap<String, String>,
}

impl ModelFiles {
    /// The files of this folder, which may not exist yet.
    #[must_use]
    pub fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), fallback: None }
    }

    /// The same, with another folder for each file that this one lacks.
    #[must_use]
    pub(super) fn or_else(self, fallback: PathBuf) -> Self {
        Self { fallback: Some(fallback), ..self }
    }

    fn at(&self, name: &str) -> PathBuf {
        let own = self.folder.join(name);
        match &self.fallback {
            Some(fallback) if !own.exists() => fallback.join(name),
            _ => own,
        }
    }

    /// Copies the existing files for a policy's text: tokenizer, templates, tokens that end a reply.
    ///
    /// # Errors
    /// An error of reading or writing.
    pub fn copy_texts(&self, to: &Self) -> io::Result<()> {
        let parts: [fn(&Self) -> PathBuf; 4] =
            [Self::tokenizer, Self::tokenizer_config, Self::generation_config, Self::chat_template];
        for part in parts {
            let (from, to) = (part(self), part(to));
            if from.exists() {
                fs::copy(&from, &to).and_then(|_| File::open(&to)?.sync_all())?;
            }
        }
        Ok(())
    }

    /// `config.json`.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.at("config.json")
    }

    /// `model.safetensors`.
    #[must_use]
    pub fn weights(&self) -> PathBuf {
        self.at("model.safetensors")
    }

    /// `model.safetensors.index.json`: which tensor is in which shard.
    fn index(&self) -> PathBuf {
        self.at("model.safetensors.index.json")
    }

    /// Whether the folder has weights.
    #[must_use]
    pub fn has_weights(&self) -> bool {
        self.weights().exists() || self.index().exists()
    }

    /// The files that hold the weights: one, or the shards of an index.
    fn weight_files(&self) -> Result<Vec<PathBuf>, TorchError> {
        let (whole, index) = (self.weights(), self.index());
        if whole.exists() || !index.exists() {
            let pickled = ["pytorch_model.bin", "pytorch_model.bin.index.json"].map(|name| self.at(name));
            return match pickled.iter().find(|path| path.exists() && !whole.exists()) {
                Some(path) => Err(unreadable(
                    path,
                    &"weights are read as safetensors; save the model with safe_serialization=True",
                )),
                None => Ok(vec![whole]),
            };
        }
        let text = fs::read_to_string(&index).map_err(|error| unreadable(&index, &error))?;
        let shards: Shards = serde_json::from_str(&text).map_err(|error| unreadable(&index, &error))?;
        let names: BTreeSet<String> = shards.weight_map.into_values().collect();
        let path = |name: String| {
            let parts: Vec<Component<'_>> = Path::new(&name).components().collect();
            match parts.as_slice() {
                [Component::Normal(_)] => Ok(index.with_file_name(&name)),
                _ => Err(unreadable(&index, &format!("`{name}` is no name of a file in this folder"))),
            }
        };
        names.into_iter().map(path).collect()
    }

    /// `tokenizer.json`.
    #[must_use]
    pub fn tokenizer(&self) -> PathBuf {
        self.at("tokenizer.json")
    }

    /// `chat_template.jinja`, where some keep the chat template.
    #[must_use]
    pub fn chat_template(&self) -> PathBuf {
        self.at("chat_template.jinja")
    }

    /// `generation_config.json`.
    #[must_use]
    pub fn generation_config(&self) -> PathBuf {
        self.at("generation_config.json")
    }

    /// `tokenizer_config.json`, which holds the chat template.
    #[must_use]
    pub fn tokenizer_config(&self) -> PathBuf {
        self.at("tokenizer_config.json")
    }

    /// Reads and checks the shape of the model.
    ///
    /// # Errors
    /// [`TorchError::Model`].
    pub fn read_config(&self) -> Result<ModelConfig, TorchError> {
        let path = self.config();
        let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?;
        ModelConfig::parse(&text).map_err(|error| unreadable(&path, &error))
    }

    /// Writes the shape of the model.
    ///
    /// # Errors
    /// [`TorchError::Model`].
    pub fn write_config(&self, config: &ModelConfig) -> Result<(), TorchError> {
        let path = self.config();
        let mut text = serde_json::to_string_pretty(config).map_err(|error| unwritable(&path, &error))?;
        text.push('\n');
        write_atomically(&path, |temporary| {
            fs::write(temporary, &text).map_err(|error| unwritable(&path, &error))
        })
    }
}

/// Reads the weights of a folder, stored in any floating-point type, as fp32.
///
/// # Errors
/// [`TorchError::Model`] when a parameter is missing, has another shape, is not finite, or has no place in the model.
pub fn load_params(files: &ModelFiles, device: Device) -> Result<Params, TorchError> {
    let layout = Arc::new(ParamLayout::new(files.read_config()?));
    load_files(&files.weight_files()?, layout, device)
}

/// Reads a file of tensors into a fresh buffer of this layout.
pub(crate) fn load_tensors(
    path: &Path,
    layout: Arc<ParamLayout>,
    device: Device,
) -> Result<Params, TorchError> {
    load_files(&[path.to_owned()], layout, device)
}

/// The same from several files, each tensor in one of them.
fn load_files(paths: &[PathBuf], layout: Arc<ParamLayout>, device: Device) -> Result<Params, TorchError> {
    let params = Params::zeros(layout, device)?;
    let mut loaded = HashSet::new();
    for path in paths {
        load_file(path, &params, &mut loaded)?;
    }
    let missing = params.layout().specs().iter().find(|spec| !loaded.contains(&spec.name));
    match (missing, paths) {
        (Some(spec), [first, ..]) => Err(unreadable(first, &format!("there is no tensor `{}`", spec.name))),
        _ => Ok(params),
    }
}

/// Fills the parameters that a file has, and adds their names to `loaded`.
fn load_file(path: &Path, params: &Params, loaded: &mut HashSet<String>) -> Result<(), TorchError> {
    let bytes = fs::read(path).map_err(|error| unreadable(path, &error))?;
    let stored = SafeTensors::deserialize(&bytes).map_err(|error| unreadable(path, &error))?;
    for spec in params.layout().specs() {
        let Ok(view) = stored.tensor(&spec.name) else { continue };
        if !loaded.insert(spec.name.clone()) {
            return Err(unreadable(path, &format!("tensor `{}` is in another shard, too", spec.name)));
        }
        let shape: Vec<i64> = view.shape().iter().map(|&size| size as i64).collect();
        if shape != spec.shape {
            let what = format!("tensor `{}` has shape {shape:?}, not {:?}", spec.name, spec.shape);
            return Err(unreadable(path, &what));
        }
        let kind = match view.dtype() {
            Dtype::F32 => Kind::Float,
            Dtype::BF16 => Kind::BFloat16,
            Dtype::F16 => Kind::Half,
            other => return Err(unreadable(path, &format!("tensor `{}` is of type {other:?}", spec.name))),
        };
        let values = Tensor::f_from_data_size(view.data(), &shape, kind)?.f_to_kind(Kind::Float)?;
        if !bool::try_from(values.f_isfinite()?.f_all()?)? {
            return Err(unreadable(path, &format!("tensor `{}` has values that are not finite", spec.name)));
        }
        params.view(spec)?.f_copy_(&values)?;
    }
    let tied = params.layout().config().tie_word_embeddings;
    let homeless = |name: &&str| params.layout().spec(name).is_none() && !(tied && *name == "lm_head.weight");
    if let Some(name) = stored.names().into_iter().find(homeless) {
        return Err(unreadable(path, &format!("tensor `{name}` has no place in this model")));
    }
    Ok(())
}

/// Writes the weights of a folder, in the type that its configuration names.
///
/// # Errors
/// [`TorchError::Model`]; what was there before is intact.
pub fn save_params(files: &ModelFiles, params: &Params) -> Result<(), TorchError> {
    let kind = match params.layout().config().dtype.as_str() {
        "bfloat16" => Kind::BFloat16,
        _ => Kind::Float,
    };
    save_tensors(&files.weights(), params, kind)
}

/// Writes a buffer under the names of its layout.
pub(crate) fn save_tensors(path: &Path, params: &Params, kind: Kind) -> Result<(), TorchError> {
    let dtype = if kind == Kind::BFloat16 { Dtype::BF16 } else { Dtype::F32 };
    let mut stored: Vec<(&str, Vec<usize>, Vec<u8>)> = Vec::new();
    for spec in params.layout().specs() {
        let values = params.view(spec)?.f_to_device(Device::Cpu)?.f_to_kind(kind)?.f_contiguous()?;
        let mut bytes = vec![0u8; values.numel() * kind.elt_size_in_bytes()];
        values.f_copy_data_u8(&mut bytes, values.numel())?;
        stored.push((&spec.name, spec.shape.iter().map(|&size| size as usize).collect(), bytes));
    }
    let views: Result<Vec<_>, _> = stored
        .iter()
        .map(|(name, shape, bytes)| Ok((*name, TensorView::new(dtype, shape.clone(), bytes)?)))
        .collect();
    let views = views.map_err(|error: safetensors::SafeTensorError| unwritable(path, &error))?;
    // Readers of the format require this entry.
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    write_atomically(path, |temporary| {
        safetensors::serialize_to_file(views, Some(metadata), temporary)
            .map_err(|error| unwritable(path, &error))
    })
}

/// Lets `write` fill a file beside `path`, then puts it there (I1).
pub(crate) fn write_atomically(
    path: &Path,
    write: impl FnOnce(&Path) -> Result<(), TorchError>,
) -> Result<(), TorchError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let temporary = path.with_file_name(name);
    let placed = write(&temporary).and_then(|()| {
        let sync = File::open(&temporary).and_then(|file| file.sync_all());
        let place = sync.and_then(|()| fs::rename(&temporary, path));
        place.map_err(|error| unwritable(path, &error))
    });
    if placed.is_err() {
        // Best effort to delete the partial file; the first error is reported.
        let _ = fs::remove_file(&temporary);
    }
    placed
}

pub(super) fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> TorchError {
    TorchError::Model(format!("cannot read {}: {error}", path.display()))
}

pub(super) fn unwritable(path: &Path, error: &dyn std::fmt::Display) -> TorchError {
    TorchError::Model(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::init_params;

    fn folder(dtype: &str) -> (tempfile::TempDir, ModelFiles, Params) {
        let folder = tempfile::tempdir().unwrap();
        let files = ModelFiles::of(folder.path());
        let mut config = ModelConfig::tiny(512, 0);
        config.dtype = dtype.to_owned();
        files.write_config(&config).unwrap();
        let params = init_params(Arc::new(ParamLayout::new(config)), 7, Device::Cpu).unwrap();
        save_params(&files, &params).unwrap();
        (folder, files, params)
    }

    #[test]
    fn what_is_written_is_read() {
        let (_folder, files, params) = folder("float32");
        let read = load_params(&files, Device::Cpu).unwrap();
        assert!(read.flat().f_equal(params.flat()).unwrap());
        let (_folder, files, params) = folder("bfloat16");
        let read = load_params(&files, Device::Cpu).unwrap();
        let rounded = params.flat().f_to_kind(Kind::BFloat16).unwrap().f_to_kind(Kind::Float).unwrap();
        assert!(read.flat().f_equal(&rounded).unwrap());
    }

    /// Splits the weights of a folder into two shards, and lists them under these names.
    fn split(files: &ModelFiles, names: [&str; 2]) {
        let bytes = fs::read(files.weights()).unwrap();
        let stored = SafeTensors::deserialize(&bytes).unwrap();
        let mut tensors = stored.tensors();
        tensors.sort_by(|one, other| one.0.cmp(&other.0));
        let second = tensors.split_off(tensors.len() / 2);
        let mut map = serde_json::Map::new();
        for (name, tensors) in names.into_iter().zip([tensors, second]) {
            map.extend(tensors.iter().map(|(tensor, _)| (tensor.clone(), name.into())));
            let folder = files.weights();
            safetensors::serialize_to_file(tensors, None, &folder.with_file_name(name)).unwrap();
        }
        fs::write(files.index(), serde_json::json!({"metadata": {}, "weight_map": map}).to_string()).unwrap();
        fs::remove_file(files.weights()).unwrap();
    }

    #[test]
    fn shards_are_read_as_one_file() {
        let (_folder, files, params) = folder("float32");
        split(&files, ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]);
        assert!(files.has_weights());
        let read = load_params(&files, Device::Cpu).unwrap();
        assert!(read.flat().f_equal(params.flat()).unwrap());
    }

    #[test]
    fn broken_shards_are_named() {
        let names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
        let check = |spoil: &dyn Fn(&ModelFiles), expected: &str| {
            let (_folder, files, _) = folder("float32");
            split(&files, names);
            spoil(&files);
            let error = load_params(&files, Device::Cpu).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        let index = |files: &ModelFiles, name: &str| {
            let map = serde_json::json!({"weight_map": {"model.norm.weight": name}});
            fs::write(files.index(), map.to_string()).unwrap();
        };
        check(&|files| fs::remove_file(files.weights().with_file_name(names[1])).unwrap(), names[1]);
        check(&|files| index(files, names[0]), "there is no tensor `model.");
        for name in ["../model.safetensors", "/etc/passwd", "a/b", ".."] {
            check(&|files| index(files, name), "is no name of a file in this folder");
        }
        check(&|files| fs::write(files.index(), "[]").unwrap(), "model.safetensors.index.json");
        let twice = |files: &ModelFiles| {
            let at = |name| files.weights().with_file_name(name);
            fs::copy(at(names[0]), at(names[1])).unwrap();
        };
        check(&twice, "is in another shard, too");
        let pickled = |files: &ModelFiles| {
            fs::remove_file(files.index()).unwrap();
            fs::write(files.weights().with_file_name("pytorch_model.bin"), "").unwrap();
        };
        check(&pickled, "safe_serialization=True");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let check = |spoil: &dyn Fn(&ModelFiles, &Params), expected: &str| {
            let (_folder, files, params) = folder("float32");
            spoil(&files, &params);
            let error = load_params(&files, Device::Cpu).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&|files, _| fs::write(files.weights(), b"short").unwrap(), "cannot read");
        check(&|files, _| fs::remove_file(files.weights()).unwrap(), "model.safetensors");
        let another = |change: fn(&mut ModelConfig)| {
            move |files: &ModelFiles, _: &Params| {
                let mut config = files.read_config().unwrap();
                change(&mut config);
                files.write_config(&config).unwrap();
            }
        };
        check(&another(|config| config.num_hidden_layers = 2), "model.layers.2");
        check(&another(|config| config.num_hidden_layers = 4), "there is no tensor `model.layers.3");
        check(&another(|config| config.vocab_size = 513), "has shape [512, 128], not [513, 128]");
        check(
            &|files, params| {
                let _ = params.final_norm().unwrap().f_fill_(f64::NAN).unwrap();
                save_params(files, params).unwrap();
            },
            "not finite",
        );
    }
}
