//! OpenClaw's configuration for a server, filled in.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// With the extension; without it, the same but for what loads it does no harm.
const TEMPLATE: &str = include_str!("../../../gateway/openclaw-extension/extension.json5");

/// What a conversation may be, where nobody says: as large models have it at least.
const USUAL_CONTEXT: usize = 32_768;

/// What is filled in.
pub(super) struct Filling<'a> {
    pub(super) base_url: &'a str,
    pub(super) key: &'a str,
    pub(super) model: &'a str,
    /// Tokens of a prompt and its answer.
    pub(super) context: Option<usize>,
}

/// The configuration.
fn text(filling: &Filling<'_>) -> String {
    let context = filling.context.unwrap_or(USUAL_CONTEXT);
    // Names and keys stand in quotation marks.
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

/// Writes it to a file that its owner alone can read: the key is in it.
pub(super) fn write(path: &Path, filling: &Filling<'_>) -> io::Result<()> {
    // One with other rights is not written into.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text(filling).as_bytes())
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
}
