//! Writes OpenClaw's configuration for a server, and the extension, as files beside the keys.
//!
//! I1. OpenClaw accepts the written files. For a model that OpenClaw refuses, nothing is written and files of an
//! earlier start are removed.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Configuration with the extension.
const TEMPLATE: &str = include_str!("../../gateway/openclaw-extension/extension.json5");

/// A file of the extension, by its path there.
macro_rules! extension {
    ($($path:literal),+) => {
        [$(($path, include_str!(concat!("../../gateway/openclaw-extension/", $path)))),+]
    };
}

/// Files of the extension that OpenClaw reads.
const EXTENSION: [(&str, &str); 8] = extension!(
    "package.json",
    "openclaw.plugin.json",
    "src/epochs.ts",
    "src/gateway.ts",
    "src/headers.ts",
    "src/index.ts",
    "src/runs.ts",
    "src/shared.ts"
);

/// Assumed context of a model whose context is unknown, tokens: large models have at least this.
const USUAL_CONTEXT: usize = 32_768;

/// Minimum context of a model, tokens. OpenClaw 2026.9.6 refuses models below 4,000, and its own prompt has 5,000 to
/// 14,000.
pub const MIN_CONTEXT: usize = 16_000;

/// Values for the template.
#[derive(Debug)]
pub(super) struct Filling<'a> {
    pub(super) base_url: &'a str,
    pub(super) key: &'a str,
    pub(super) model: &'a str,
    /// Context length, tokens: prompt and answer.
    pub(super) context: Option<usize>,
}

/// Result of the set-up for OpenClaw.
#[derive(Debug, PartialEq, Eq)]
pub enum SetUp {
    /// The files were written.
    Written {
        /// Configuration for `openclaw config patch`.
        config: PathBuf,
        /// Folder of the extension.
        extension: PathBuf,
        /// Assumed context of the model, tokens, if the real one is unknown.
        assumed: Option<usize>,
    },
    /// Nothing was written: the model's context, in tokens, is too short.
    TooShort(usize),
}

/// Fills in the template.
fn text(filling: &Filling<'_>) -> String {
    let context = filling.context.unwrap_or(USUAL_CONTEXT);
    // Names and keys are quoted.
    let quoted = |text: &str| {
        let quoted = serde_json::Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    TEMPLATE
        .replace("{base_url}", &quoted(filling.base_url))
        .replace("{key}", &quoted(filling.key))
        .replace("{model}", &quoted(filling.model))
        .replace("{context_window}", &context.to_string())
        .replace("{max_tokens}", &(context / 8).clamp(1, 4_096).to_string())
}

/// Writes the set-up files for OpenClaw to a folder.
///
/// # Errors
/// The file that cannot be written or removed, and the reason.
pub(super) fn set_up(folder: &Path, filling: &Filling<'_>) -> Result<SetUp, (PathBuf, io::Error)> {
    let config = folder.join("openclaw.json5");
    // The file is removed first, so that it gets the right permissions and no old one remains (I1).
    match fs::remove_file(&config) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err((config, error)),
        _ => {}
    }
    if let Some(context) = filling.context.filter(|context| *context < MIN_CONTEXT) {
        return Ok(SetUp::TooShort(context));
    }
    let extension = folder.join("openclaw-extension");
    for (path, text) in EXTENSION {
        let path = extension.join(path);
        let folder = path.parent().unwrap_or(&extension);
        fs::create_dir_all(folder).and_then(|()| fs::write(&path, text)).map_err(|error| (path, error))?;
    }
    // Readable only by the owner, since it contains the key.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&config);
    match file.and_then(|mut file| file.write_all(text(filling).as_bytes())) {
        Ok(()) => {
            let assumed = filling.context.is_none().then_some(USUAL_CONTEXT);
            Ok(SetUp::Written { config, extension, assumed })
        }
        Err(error) => Err((config, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_filled_in() {
        let filling =
            Filling { base_url: "http://127.0.0.1:1/v1", key: "k", model: "a\"b", context: Some(2048) };
        let text = text(&filling);
        for part in
            ["\"http://127.0.0.1:1/v1\"", "\"k\"", "id: \"a\\\"b\"", "contextWindow: 2048", "maxTokens: 256"]
        {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains("{base_url}") && !text.contains("{m") && !text.contains("{c"), "{text}");
    }

    #[test]
    fn i1_a_model_that_openclaw_refuses_gets_no_configuration_and_keeps_none() {
        let folder = tempfile::tempdir().unwrap();
        let check = |context, expected: Option<&str>| {
            let filling = Filling { base_url: "http://127.0.0.1:1/v1", key: "k", model: "m", context };
            let set_up = set_up(folder.path(), &filling).unwrap();
            let text = fs::read_to_string(folder.path().join("openclaw.json5")).ok();
            assert_eq!(text.is_some(), expected.is_some(), "{set_up:?}");
            assert!(text.unwrap_or_default().contains(expected.unwrap_or_default()), "{set_up:?}");
            set_up
        };
        check(Some(MIN_CONTEXT), Some("contextWindow: 16000"));
        assert_eq!(check(Some(MIN_CONTEXT - 1), None), SetUp::TooShort(15_999));
        let config = folder.path().join("openclaw.json5");
        let extension = folder.path().join("openclaw-extension");
        let expected = SetUp::Written { config, extension: extension.clone(), assumed: Some(32_768) };
        assert_eq!(check(None, Some("contextWindow: 32768")), expected);
        assert!(extension.join("src/index.ts").is_file());
    }

    #[test]
    fn every_file_of_the_extension_is_written() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gateway/openclaw-extension/src");
        let mut files: Vec<String> = fs::read_dir(source)
            .unwrap()
            .map(|entry| format!("src/{}", entry.unwrap().file_name().to_str().unwrap()))
            .collect();
        files.sort();
        let written: Vec<&str> =
            EXTENSION.iter().map(|(path, _)| *path).filter(|path| path.starts_with("src/")).collect();
        assert_eq!(written, files);
    }
}
