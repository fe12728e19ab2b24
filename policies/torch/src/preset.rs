//! New policies: a folder in the format of Hugging Face, with a tokenizer trained on the text at hand and
//! freshly drawn weights. No download.
//!
//! I1. The folder appears complete or not at all: it is written beside its place, synced and renamed. Nothing that is
//! there is overwritten. I2. Every file is a function of the request: same texts, same seed, same bytes.
//!
//! Cancellation: none; it takes seconds. A process that is killed leaves a folder `.<name>.part`, which the next try
//! replaces.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawrl_core::HERMES_OPENING;
use serde_json::json;
use tch::Device;

use crate::conversation::{DEFAULT_TEMPLATE, HERMES_PHRASES};
use crate::error::TorchError;
use crate::model::{ModelConfig, ModelFiles, ParamLayout, init_params, save_params};
use crate::tokenizer::{END, PAD, Tokenizer, TokenizerError, Training, train_tokenizer};

/// Words of shell messages, so that they are single tokens too. No suite contains them.
const SHELL_PHRASES: &str = "exit still running the shell has exited timed out and killed cancelled error cannot \
     access open create remove directory No such file or directory command not found bash line syntax near \
     unexpected token Permission denied File exists Is a directory Not a directory missing operand destination try \
     help for more information usage invalid option extra total root empty submit turns left out here";

/// A ready-made shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// Learns the short terminal tasks on two CPU cores: about half a million parameters.
    Tiny,
}

impl Preset {
    /// The preset of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        (name == "tiny").then_some(Self::Tiny)
    }
}

/// Request for a new policy.
#[derive(Debug, Clone, Copy)]
pub struct PresetRequest<'a> {
    /// Its shape.
    pub preset: Preset,
    /// Decides the weights.
    pub seed: u64,
    /// Texts that the policy will read and write: instructions, commands, names, contents of files. Every word in them
    /// becomes one token, the most frequent ones first. Where they have calls in the Hermes format, what stands around
    /// names and values in these is a token too.
    pub texts: &'a [String],
    /// Most tokens that the model reads at once; as the preset has it, where nothing is said.
    pub positions: Option<u32>,
}

/// Facts about the new policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresetSummary {
    /// Entries of the vocabulary.
    pub vocab_size: usize,
    /// Parameters of the model.
    pub parameters: i64,
}

/// Why no policy was made. The folder is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum PresetError {
    /// There is something already.
    #[error("{0} is not empty; a policy is only made in a new or an empty folder")]
    NotEmpty(PathBuf),
    /// The disk refused.
    #[error("cannot write {path}: {error}")]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The tokenizer could not be trained.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The weights could not be drawn or written.
    #[error(transparent)]
    Torch(#[from] TorchError),
}

/// Makes a policy in a folder that is empty or not there yet.
///
/// # Errors
/// [`PresetError`]; the folder is then as it was (I1).
pub fn init_policy(folder: &Path, request: &PresetRequest<'_>) -> Result<PresetSummary, PresetError> {
    if fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(PresetError::NotEmpty(folder.to_owned()));
    }
    let staging = staging_folder(folder);
    let made = make(&staging, request).and_then(|summary| {
        // Replaces an empty folder, and fails if something came to be in it meanwhile.
        at(folder, fs::rename(&staging, folder))?;
        Ok(summary)
    });
    if made.is_err() {
        // Best effort to delete the partial folder; the first error is reported.
        let _ = fs::remove_dir_all(&staging);
    }
    made
}

fn make(folder: &Path, request: &PresetRequest<'_>) -> Result<PresetSummary, PresetError> {
    if folder.exists() {
        at(folder, fs::remove_dir_all(folder))?;
    }
    at(folder, fs::create_dir_all(folder))?;
    let texts: Vec<&str> = request.texts.iter().map(String::as_str).chain([SHELL_PHRASES]).collect();
    let phrases: &[&str] =
        if texts.iter().any(|text| text.contains(HERMES_OPENING)) { &HERMES_PHRASES } else { &[] };
    let tokenizer = match request.preset {
        Preset::Tiny => train_tokenizer(&texts, &Training { vocab_size: 1_500, min_count: 1, phrases })?,
    };
    let end = added_token(&tokenizer, END)?;
    let pad = added_token(&tokenizer, PAD)?;
    let vocab_size = i64::try_from(tokenizer.vocab_size()).unwrap_or(i64::MAX);
    let mut config = match request.preset {
        Preset::Tiny => ModelConfig::tiny(vocab_size, end),
    };
    config.max_position_embeddings = request.positions.map_or(config.max_position_embeddings, i64::from);
    config.check().map_err(|error| TorchError::Model(error.to_string()))?;
    let files = ModelFiles::of(folder);
    files.write_config(&config)?;
    write(&files.tokenizer(), tokenizer.json())?;
    write(
        &files.tokenizer_config(),
        &pretty(&json!({
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": config.max_position_embeddings,
            "clean_up_tokenization_spaces": false,
            "eos_token": END,
            "pad_token": PAD,
            "chat_template": DEFAULT_TEMPLATE,
        }))?,
    )?;
    write(
        &files.generation_config(),
        &pretty(&json!({ "eos_token_id": [end], "pad_token_id": pad, "do_sample": true }))?,
    )?;
    let params = init_params(Arc::new(ParamLayout::new(config)), request.seed, Device::Cpu)?;
    save_params(&files, &params)?;
    at(folder, File::open(folder).and_then(|folder| folder.sync_all()))?;
    Ok(PresetSummary { vocab_size: tokenizer.vocab_size(), parameters: params.layout().parameters() })
}

fn added_token(tokenizer: &Tokenizer, text: &str) -> Result<u32, TokenizerError> {
    tokenizer.added_token(text).ok_or_else(|| TokenizerError::Unsuitable(format!("it has no `{text}`")))
}

fn staging_folder(folder: &Path) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!(".{name}.part"))
}

fn pretty(value: &serde_json::Value) -> Result<String, TorchError> {
    let text = serde_json::to_string_pretty(value).map_err(|error| TorchError::Model(error.to_string()))?;
    Ok(text + "\n")
}

fn write(path: &Path, text: &str) -> Result<(), PresetError> {
    at(path, fs::write(path, text).and_then(|()| File::open(path)?.sync_all()))
}

fn at<T>(path: &Path, result: io::Result<T>) -> Result<T, PresetError> {
    result.map_err(|error| PresetError::Io { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::Chat;
    use crate::model::load_params;

    fn init(folder: &Path, seed: u64) -> Result<PresetSummary, PresetError> {
        let texts = ["Write the word apple into pear.txt".to_owned()];
        init_policy(folder, &PresetRequest { preset: Preset::Tiny, seed, texts: &texts, positions: None })
    }

    #[test]
    fn a_policy_is_made_that_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("tiny");
        let summary = init(&policy, 1).unwrap();
        let files = ModelFiles::of(&policy);
        let (chat, params) = (Chat::load(&files).unwrap(), load_params(&files, Device::Cpu).unwrap());
        assert_eq!(chat.tokenizer().vocab_size(), summary.vocab_size);
        assert_eq!(params.layout().config().vocab_size, summary.vocab_size as i64);
        assert_eq!(chat.stop_ids(), [5]);
        assert_eq!(chat.tokenizer().encode_content("apple denied").unwrap().len(), 3);
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["tiny"], "I1");
    }

    #[test]
    fn the_request_decides_every_byte() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second, other] = ["a", "b", "c"].map(|name| folder.path().join(name));
        // An empty folder is as good as none.
        fs::create_dir(&second).unwrap();
        init(&first, 7).unwrap();
        init(&second, 7).unwrap();
        init(&other, 8).unwrap();
        let mut names: Vec<_> =
            fs::read_dir(&first).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        let expected = [
            "config.json",
            "generation_config.json",
            "model.safetensors",
            "tokenizer.json",
            "tokenizer_config.json",
        ];
        assert_eq!(names, expected);
        for name in names {
            assert_eq!(
                fs::read(first.join(&name)).unwrap(),
                fs::read(second.join(&name)).unwrap(),
                "I2 {name:?}"
            );
        }
        let weights = |folder: &Path| fs::read(folder.join("model.safetensors")).unwrap();
        assert_ne!(weights(&first), weights(&other));
    }

    #[test]
    fn nothing_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("mine"), "x").unwrap();
        let error = init(folder.path(), 1).unwrap_err();
        assert!(matches!(error, PresetError::NotEmpty(_)), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

        let file = folder.path().join("mine");
        let error = init(&file, 1).unwrap_err();
        assert!(matches!(error, PresetError::Io { .. }), "{error}");
        assert_eq!(fs::read(&file).unwrap(), b"x");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "I1");
    }
}
