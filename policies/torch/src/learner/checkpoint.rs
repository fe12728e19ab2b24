//! Checkpoints: weights, moments and the caller's progress, atomically.
//!
//! A checkpoint is a folder named by its version. It is written under a temporary name, synced and renamed, so it is either
//! complete or absent.
//!
//! I1. A failed write does not touch earlier checkpoints. I2. A folder counts only if its manifest exists and every listed
//! file has the listed size and hash. I3. Weights of the last `keep_weights` versions and of those named by
//! [`Checkpoints::keep_only`] are kept, and moments (and an averaged teacher) of the last `keep_moments`. Older ones are
//! deleted only after a newer one is complete. I4. The manifest is authoritative on the consumed data: it carries the
//! caller's progress.
//!
//! Layout: `<version>/manifest.json`, `<version>/model/` (a model or adapter folder that other programs can load),
//! `<version>/first_moment.safetensors`, `<version>/second_moment.safetensors`, and `<version>/teacher.safetensors` if the
//! teacher is averaged. An empty file `<version>/keep` marks weights that are never deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawrl_learn::EntropyControl;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tch::{Device, Kind};

use crate::error::TorchError;
use crate::model::{
    AdapterFiles, ModelConfig, ModelFiles, ParamLayout, Params, load_adapter, load_params, load_tensors,
    save_adapter, save_tensors,
};

/// Version of the manifest's schema.
const FORMAT: u32 = 1;
const MANIFEST: &str = "manifest.json";
const MODEL: &str = "model";
const FIRST_MOMENT: &str = "first_moment.safetensors";
const SECOND_MOMENT: &str = "second_moment.safetensors";
const TEACHER: &str = "teacher.safetensors";
/// Marks a checkpoint whose weights are never deleted. No manifest lists it.
const KEEP: &str = "keep";
/// Files that are deleted before the weights.
const DROPPED_FIRST: [&str; 3] = [FIRST_MOMENT, SECOND_MOMENT, TEACHER];
/// Name prefix of a folder that is not yet, or no longer, a checkpoint.
const UNFINISHED: &str = ".part-";

/// How many are kept, beside those of [`Checkpoints::keep_only`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// Checkpoints with weights, at least 1.
    pub weights: u32,
    /// Of these, the newest with moments, at least 1.
    pub moments: u32,
}

/// A file of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FileEntry {
    bytes: u64,
    sha256: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    version: u64,
    optimizer_steps: u64,
    #[serde(default)]
    moments_since: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    branch: Option<Branch>,
    #[serde(default, skip_serializing_if = "EntropyControl::is_new")]
    entropy: EntropyControl,
    /// The caller's own state, as it gave it.
    progress: String,
    /// By path within the folder.
    files: BTreeMap<String, FileEntry>,
}

/// A checkpoint that was read.
#[derive(Debug)]
pub struct Checkpoint {
    /// Version of the parameters.
    pub version: u64,
    /// Optimizer steps at the time of the checkpoint.
    pub optimizer_steps: u64,
    /// Optimizer steps at the time when the moments were reset to zero.
    pub moments_since: u64,
    /// Its origin, if a rollback made it.
    pub branch: Option<Branch>,
    /// State of the entropy bonus.
    pub entropy: EntropyControl,
    /// The caller's progress at the time of the checkpoint.
    pub progress: String,
    /// Weights of the model, or of the adapter if one is trained.
    pub params: Params,
    /// First and second moment; `None` if they were deleted.
    pub moments: Option<(Params, Params)>,
    /// The averaged teacher, if there was one and the moments exist.
    pub teacher: Option<Params>,
    /// Path of the checkpoint.
    pub folder: PathBuf,
}

/// Result of [`Checkpoints::latest`].
#[derive(Debug)]
pub struct Latest {
    /// The newest complete checkpoint, if any.
    pub checkpoint: Option<Checkpoint>,
    /// Newer checkpoints that are damaged, with the reasons.
    pub damaged: Vec<String>,
}

/// Origin of a version that a rollback made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// The version whose weights were restored.
    pub from: u64,
    /// The version that it replaced.
    pub instead_of: u64,
}

/// Facts from a checkpoint's manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointFacts {
    /// Version of the parameters.
    pub version: u64,
    /// The caller's progress at the time of the checkpoint.
    pub progress: String,
    /// Whether the moments still exist.
    pub has_moments: bool,
    /// Its origin, if a rollback made it.
    pub branch: Option<Branch>,
}

/// The checkpoints of one training run.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    folder: PathBuf,
    retention: Retention,
}

/// Contents of a checkpoint beside the weights.
#[derive(Debug)]
pub(crate) struct State<'a> {
    pub(crate) version: u64,
    pub(crate) optimizer_steps: u64,
    pub(crate) moments_since: u64,
    pub(crate) first: &'a Params,
    pub(crate) second: &'a Params,
    pub(crate) teacher: Option<&'a Params>,
    /// For an adapter: path of its base model, relative to the folder `model`.
    pub(crate) base: Option<&'a str>,
    pub(crate) entropy: EntropyControl,
    pub(crate) progress: &'a str,
}

impl Checkpoints {
    /// The checkpoints in this folder, which need not exist.
    #[must_use]
    pub fn new(folder: &Path, retention: Retention) -> Self {
        let retention = Retention {
            weights: retention.weights.max(1),
            moments: retention.moments.clamp(1, retention.weights.max(1)),
        };
        Self { folder: folder.to_owned(), retention }
    }

    /// Reads the newest complete checkpoint (I2) into CPU memory.
    ///
    /// # Errors
    /// [`TorchError::Checkpoint`] if the folder cannot be read, or if there are checkpoints and all are damaged.
    pub fn latest(&self) -> Result<Latest, TorchError> {
        let mut damaged = Vec::new();
        let mut versions = self.versions()?;
        while let Some(version) = versions.pop() {
            let folder = self.folder_of(version);
            match read(&folder) {
                Ok(checkpoint) => return Ok(Latest { checkpoint: Some(checkpoint), damaged }),
                Err(error) => damaged.push(error.to_string()),
            }
        }
        if damaged.is_empty() {
            Ok(Latest { checkpoint: None, damaged })
        } else {
            Err(TorchError::Checkpoint(format!("no checkpoint is whole: {}", damaged.join("; "))))
        }
    }

    /// Reads the checkpoint of this version into CPU memory and checks every file.
    ///
    /// # Errors
    /// [`TorchError::Checkpoint`] if it is missing or damaged.
    pub fn load(&self, version: u64) -> Result<Checkpoint, TorchError> {
        read(&self.folder_of(version))
    }

    /// All checkpoints by their manifests, ascending, and the defects of others. Files other than the manifests are not read.
    ///
    /// # Errors
    /// [`TorchError::Checkpoint`] when the folder cannot be read.
    pub fn list(&self) -> Result<(Vec<CheckpointFacts>, Vec<String>), TorchError> {
        let (mut whole, mut damaged) = (Vec::new(), Vec::new());
        for version in self.versions()? {
            let folder = self.folder_of(version);
            match manifest_of(&folder) {
                Ok(Manifest { version, progress, branch, .. }) => {
                    let has_moments = has_moments(&folder);
                    whole.push(CheckpointFacts { version, progress, has_moments, branch });
                }
                Err(error) => damaged.push(error.to_string()),
            }
        }
        Ok((whole, damaged))
    }

    /// Makes a new version from an older one: its weights, its moments if they still exist, and new progress.
    ///
    /// # Errors
    /// [`TorchError::Checkpoint`] if the older one is incomplete, the newer one exists already, or the disk is full.
    pub fn branch(&self, branch: Branch, version: u64, progress: &str) -> Result<PathBuf, TorchError> {
        let from = branch.from;
        let (source, place) = (self.folder_of(from), self.folder_of(version));
        let mut manifest = manifest_of(&source)?;
        drop_lost_moments(&source, &mut manifest);
        check_files(&source, &manifest)?;
        if place.exists() {
            return Err(failed(&place, &"it is there already"));
        }
        let unfinished = self.folder.join(format!("{UNFINISHED}{version}"));
        let copy = |name: &String| {
            let to = unfinished.join(name);
            fs::create_dir_all(to.parent().unwrap_or(&unfinished))?;
            fs::copy(source.join(name), &to)?;
            File::open(&to)?.sync_all()
        };
        let copied = remove_if_there(&unfinished)
            .and_then(|()| fs::create_dir_all(&unfinished))
            .and_then(|()| manifest.files.keys().try_for_each(copy))
            .map_err(|error| failed(&unfinished, &error));
        manifest.version = version;
        manifest.branch = Some(branch);
        progress.clone_into(&mut manifest.progress);
        let put = copied.and_then(|()| write_manifest(&unfinished, &manifest)).and_then(|()| {
            let put = fs::rename(&unfinished, &place).and_then(|()| sync(&self.folder));
            put.map_err(|error| failed(&place, &error))
        });
        if let Err(error) = put {
            // Best effort; the first error is reported.
            let _ = fs::remove_dir_all(&unfinished);
            return Err(error);
        }
        self.drop_old()?;
        Ok(place)
    }

    /// Writes a checkpoint, then deletes those that are too old. The tokenizer and templates are copied from `model`.
    pub(crate) fn write(
        &self,
        model: &ModelFiles,
        params: &Params,
        state: &State<'_>,
    ) -> Result<PathBuf, TorchError> {
        let place = self.folder_of(state.version);
        let unfinished = self.folder.join(format!("{UNFINISHED}{}", state.version));
        let written = self.fill(&unfinished, model, params, state).and_then(|()| {
            // After a resume from an earlier version a checkpoint of this version may exist; both have the same content.
            let put = remove_if_there(&place).and_then(|()| fs::rename(&unfinished, &place));
            put.and_then(|()| sync(&self.folder)).map_err(|error| failed(&place, &error))
        });
        if let Err(error) = written {
            // Best effort to free space, since a full disk is the most frequent cause. The first error is reported.
            let _ = fs::remove_dir_all(&unfinished);
            return Err(error);
        }
        self.drop_old()?;
        Ok(place)
    }

    fn fill(
        &self,
        folder: &Path,
        model: &ModelFiles,
        params: &Params,
        state: &State<'_>,
    ) -> Result<(), TorchError> {
        let model_folder = folder.join(MODEL);
        remove_if_there(folder)
            .and_then(|()| fs::create_dir_all(&model_folder))
            .map_err(|error| failed(folder, &error))?;
        let copied = ModelFiles::of(&model_folder);
        // Checkpoints are fp32 regardless of the policy's files: rounding would lose small updates.
        let config = ModelConfig { dtype: "float32".to_owned(), ..params.layout().config().clone() };
        copied.write_config(&config)?;
        match state.base {
            Some(base) => save_adapter(&AdapterFiles::of(&model_folder), params, base)?,
            None => save_tensors(&copied.weights(), params, Kind::Float)?,
        }
        model.copy_texts(&copied).map_err(|error| failed(&model_folder, &error))?;
        save_tensors(&folder.join(FIRST_MOMENT), state.first, Kind::Float)?;
        save_tensors(&folder.join(SECOND_MOMENT), state.second, Kind::Float)?;
        if let Some(teacher) = state.teacher {
            save_tensors(&folder.join(TEACHER), teacher, Kind::Float)?;
        }
        let mut files = BTreeMap::new();
        list(folder, folder, &mut files).map_err(|error| failed(folder, &error))?;
        let manifest = Manifest {
            format: FORMAT,
            version: state.version,
            optimizer_steps: state.optimizer_steps,
            moments_since: state.moments_since,
            branch: None,
            entropy: state.entropy,
            progress: state.progress.to_owned(),
            files,
        };
        write_manifest(folder, &manifest)
    }

    /// Keeps the weights of these versions, as far as they exist, at any age. Versions that an earlier call named and this
    /// one does not are subject to the usual limit again.
    ///
    /// # Errors
    /// [`TorchError::Checkpoint`] if a mark cannot be written or removed.
    pub fn keep_only(&self, wanted: &BTreeSet<u64>) -> Result<(), TorchError> {
        let (named, others): (Vec<u64>, Vec<u64>) =
            self.versions()?.into_iter().partition(|version| wanted.contains(version));
        for folder in named.into_iter().map(|version| self.folder_of(version)) {
            let mark = folder.join(KEEP);
            if !mark.exists() {
                File::create(&mark)
                    .and_then(|file| file.sync_all())
                    .and_then(|()| sync(&folder))
                    .map_err(|error| failed(&mark, &error))?;
            }
        }
        for mark in others.into_iter().map(|version| self.folder_of(version).join(KEEP)) {
            remove_if_there(&mark).map_err(|error| failed(&mark, &error))?;
        }
        Ok(())
    }

    /// I3.
    fn drop_old(&self) -> Result<(), TorchError> {
        let versions = self.versions()?;
        let newest_first = versions.iter().rev().zip(0u32..);
        for (&version, age) in newest_first {
            let folder = self.folder_of(version);
            let dropped = if age >= self.retention.weights && !folder.join(KEEP).exists() {
                // Renamed first, so that a partly deleted folder does not count as a checkpoint.
                let doomed = self.folder.join(format!("{UNFINISHED}old-{version}"));
                fs::rename(&folder, &doomed).and_then(|()| fs::remove_dir_all(&doomed))
            } else if age >= self.retention.moments {
                DROPPED_FIRST.iter().try_for_each(|name| remove_if_there(&folder.join(name)))
            } else {
                Ok(())
            };
            dropped.map_err(|error| failed(&folder, &error))?;
        }
        Ok(())
    }

    /// Versions of all folders that are named like a checkpoint, damaged ones included, ascending.
    ///
    /// # Errors
    /// [`TorchError::Checkpoint`] when the folder cannot be read.
    pub fn versions(&self) -> Result<Vec<u64>, TorchError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(&self.folder, &error)),
        };
        let mut versions = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| failed(&self.folder, &error))?;
            versions.extend(entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok()));
        }
        versions.sort_unstable();
        Ok(versions)
    }

    /// Path of a version's checkpoint, which need not exist.
    #[must_use]
    pub fn folder_of(&self, version: u64) -> PathBuf {
        self.folder.join(format!("{version:06}"))
    }
}

/// Writes the manifest, the last file of a checkpoint, which makes it complete.
fn write_manifest(folder: &Path, manifest: &Manifest) -> Result<(), TorchError> {
    let path = folder.join(MANIFEST);
    let text = serde_json::to_string_pretty(manifest).map_err(|error| failed(&path, &error))?;
    fs::write(&path, text)
        .and_then(|()| File::open(&path)?.sync_all())
        .and_then(|()| sync(&folder.join(MODEL)))
        .and_then(|()| sync(folder))
        .map_err(|error| failed(&path, &error))
}

fn manifest_of(folder: &Path) -> Result<Manifest, TorchError> {
    let path = folder.join(MANIFEST);
    let text = fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
    let manifest: Manifest = serde_json::from_str(&text).map_err(|error| failed(&path, &error))?;
    if manifest.format != FORMAT {
        let what = format!("it is of format {}; this program reads format {FORMAT}", manifest.format);
        return Err(failed(&path, &what));
    }
    Ok(manifest)
}

fn has_moments(folder: &Path) -> bool {
    folder.join(FIRST_MOMENT).exists() && folder.join(SECOND_MOMENT).exists()
}

/// Removes files from the manifest that were deleted with the moments.
fn drop_lost_moments(folder: &Path, manifest: &mut Manifest) {
    if !has_moments(folder) {
        manifest.files.retain(|name, _| !DROPPED_FIRST.contains(&name.as_str()));
    }
}

/// Checks every file against the manifest.
fn check_files(folder: &Path, manifest: &Manifest) -> Result<(), TorchError> {
    for (name, expected) in &manifest.files {
        let path = folder.join(name);
        let found = entry_of(&path).map_err(|error| failed(&path, &error))?;
        if found != *expected {
            return Err(failed(&path, &"it is not what the manifest says; it was damaged or changed"));
        }
    }
    Ok(())
}

/// Reads a checkpoint and checks every file that is used.
fn read(folder: &Path) -> Result<Checkpoint, TorchError> {
    let mut manifest = manifest_of(folder)?;
    drop_lost_moments(folder, &mut manifest);
    check_files(folder, &manifest)?;
    let (model, adapter) = (ModelFiles::of(&folder.join(MODEL)), AdapterFiles::of(&folder.join(MODEL)));
    let params = if adapter.exist() {
        load_adapter(&adapter, &model.read_config()?, Device::Cpu)?
    } else {
        load_params(&model, Device::Cpu)?
    };
    let moment = |name: &str, layout: &Arc<ParamLayout>| {
        load_tensors(&folder.join(name), Arc::clone(layout), Device::Cpu)
    };
    let moments = if has_moments(folder) {
        Some((moment(FIRST_MOMENT, params.layout())?, moment(SECOND_MOMENT, params.layout())?))
    } else {
        None
    };
    let teacher =
        if manifest.files.contains_key(TEACHER) { Some(moment(TEACHER, params.layout())?) } else { None };
    Ok(Checkpoint {
        version: manifest.version,
        optimizer_steps: manifest.optimizer_steps,
        moments_since: manifest.moments_since,
        branch: manifest.branch,
        entropy: manifest.entropy,
        progress: manifest.progress,
        params,
        moments,
        teacher,
        folder: folder.to_owned(),
    })
}

fn list(root: &Path, folder: &Path, files: &mut BTreeMap<String, FileEntry>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(root, &path, files)?;
        } else if let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str) {
            files.insert(name.to_owned(), entry_of(&path)?);
        }
    }
    Ok(())
}

fn entry_of(path: &Path) -> io::Result<FileEntry> {
    let mut file = File::open(path)?;
    let (mut hash, mut bytes) = (Sha256::new(), 0u64);
    let mut block = vec![0u8; 1 << 16];
    loop {
        let read = file.read(&mut block)?;
        if read == 0 {
            break;
        }
        hash.update(&block[..read]);
        bytes += read as u64;
    }
    let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(FileEntry { bytes, sha256 })
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> TorchError {
    TorchError::Checkpoint(format!("checkpoint {}: {error}", path.display()))
}
