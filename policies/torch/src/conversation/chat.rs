//! The text format of a model: its tokenizer, its chat template and its stop tokens.
//!
//! Read from the files of a model's folder as Hugging Face lays them out. The template is `chat_template.jinja` if it
//! exists, otherwise the one in `tokenizer_config.json`; the stop tokens are those of `generation_config.json`, otherwise
//! of `config.json`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use clawrl_core::Message;
use serde::Deserialize;

use super::error::ConversationError;
use super::template::ChatTemplate;
use crate::model::{EndTokens, ModelFiles};
use crate::tokenizer::{MarkupTokens, Tokenizer};

/// The template of new policies: one special token opens a message, one closes it.
pub const DEFAULT_TEMPLATE: &str = "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>\
                                    {% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";

/// Converts messages to tokens. Immutable; shared by all attempts.
#[derive(Debug)]
pub struct Chat {
    pub(super) tokenizer: Tokenizer,
    pub(super) template: ChatTemplate,
    stop_ids: Vec<u32>,
    end_id: u32,
}

/// The used fields of `tokenizer_config.json`.
#[derive(Deserialize)]
struct TokenizerConfig {
    chat_template: Option<Templates>,
    #[serde(flatten)]
    rest: BTreeMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Templates {
    One(String),
    Named(Vec<NamedTemplate>),
}

#[derive(Deserialize)]
struct NamedTemplate {
    name: String,
    template: String,
}

#[derive(Deserialize)]
struct GenerationConfig {
    eos_token_id: Option<EndTokens>,
}

impl Chat {
    /// Reads the files of a model's folder.
    ///
    /// # Errors
    /// [`ConversationError`], with the name of the file.
    pub fn load(files: &ModelFiles) -> Result<Self, ConversationError> {
        let model = files.read_config().map_err(|error| unreadable(&files.config(), &error))?;
        let tokenizer = Tokenizer::load(&files.tokenizer())?;
        if tokenizer.vocab_size() as i64 > model.vocab_size {
            let (entries, known) = (tokenizer.vocab_size(), model.vocab_size);
            let what = format!("it has {entries} entries and the model knows {known}");
            return Err(unreadable(&files.tokenizer(), &what));
        }
        let path = files.tokenizer_config();
        let config: TokenizerConfig = read_json(&path)?;
        let separate = files.chat_template();
        let source = if separate.exists() {
            fs::read_to_string(&separate).map_err(|error| unreadable(&separate, &error))?
        } else {
            let one = match config.chat_template {
                Some(Templates::One(template)) => Some(template),
                Some(Templates::Named(all)) => {
                    all.into_iter().find(|named| named.name == "default").map(|named| named.template)
                }
                None => None,
            };
            one.ok_or_else(|| unreadable(&path, &"there is no chat template"))?
        };
        let special_tokens = special_tokens(config.rest);
        let named = special_tokens.get("eos_token").and_then(|token| tokenizer.added_token(token));
        let stop_ids = stop_ids(files, model.eos_token_id, named)?;
        Self::new(tokenizer, source, special_tokens, stop_ids)
    }

    /// Creates a chat from its parts. `special_tokens` are the variables of the template, such as `bos_token`;
    /// the first of `stop_ids` ends the replies of demonstrations.
    ///
    /// # Errors
    /// [`ConversationError`] if the template cannot be used or there is no stop token.
    pub fn new(
        tokenizer: Tokenizer,
        template: String,
        special_tokens: BTreeMap<String, String>,
        stop_ids: Vec<u32>,
    ) -> Result<Self, ConversationError> {
        let Some(&end_id) = stop_ids.first() else {
            return Err(ConversationError::Template(
                "no token ends a reply: `eos_token_id` is empty".to_owned(),
            ));
        };
        let outside = |id: &&u32| **id as usize >= tokenizer.vocab_size();
        if let Some(id) = stop_ids.iter().find(outside) {
            return Err(ConversationError::Template(format!(
                "`eos_token_id` {id} is outside the vocabulary"
            )));
        }
        Ok(Self { tokenizer, template: ChatTemplate::new(template, special_tokens)?, stop_ids, end_id })
    }

    /// The tokenizer.
    #[must_use]
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Stop tokens: sampling one ends a reply. Not empty.
    #[must_use]
    pub fn stop_ids(&self) -> &[u32] {
        &self.stop_ids
    }

    /// Stop token of demonstrations.
    #[must_use]
    pub fn end_id(&self) -> u32 {
        self.end_id
    }

    /// The text of sampled ids, without the stop token and other special tokens.
    ///
    /// # Errors
    /// [`ConversationError::Tokenizer`].
    pub fn reply_text(&self, ids: &[u32]) -> Result<String, ConversationError> {
        let said = match ids.split_last() {
            Some((last, said)) if self.stop_ids.contains(last) => said,
            _ => ids,
        };
        Ok(self.tokenizer.decode(said, MarkupTokens::Skip)?)
    }

    /// The content of a message as ids, stripped as the template strips it. Images become words, since the policy only
    /// reads text.
    pub(super) fn content_ids(&self, message: &Message) -> Result<Vec<u32>, ConversationError> {
        let text = message.text_with_images_named();
        Ok(self.tokenizer.encode_content(self.template.trim_of(message.role).apply(&text))?)
    }
}

/// Entries such as `"eos_token": "<|end|>"` or `"eos_token": {"content": "<|end|>", ...}`.
fn special_tokens(entries: BTreeMap<String, serde_json::Value>) -> BTreeMap<String, String> {
    let tokens =
        entries.into_iter().filter(|(name, _)| name.ends_with("_token")).filter_map(|(name, value)| {
            let text = value.as_str().or_else(|| value.get("content")?.as_str())?.to_owned();
            Some((name, text))
        });
    tokens.collect()
}

/// The stop tokens of `generation_config.json`, otherwise of the model's configuration, otherwise of the tokenizer's.
fn stop_ids(
    files: &ModelFiles,
    model: EndTokens,
    tokenizer: Option<u32>,
) -> Result<Vec<u32>, ConversationError> {
    let path = files.generation_config();
    let generation: Option<GenerationConfig> = if path.exists() { Some(read_json(&path)?) } else { None };
    Ok(match generation.and_then(|generation| generation.eos_token_id) {
        Some(EndTokens(ids)) => ids,
        None if model.0.is_empty() => tokenizer.into_iter().collect(),
        None => model.0,
    })
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, ConversationError> {
    let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    serde_json::from_str(&text).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, reason: &dyn std::fmt::Display) -> ConversationError {
    ConversationError::Unreadable { path: path.display().to_string(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::state::{Context, ConversationState};
    use super::*;
    use crate::model::ModelConfig;
    use crate::tokenizer::{Training, train_tokenizer};

    /// Writes a folder, changes it, and gives the prompt of one message and the tokens that end a reply, or the error.
    fn check(change: impl FnOnce(&ModelFiles), expected: Result<(&str, &[u32]), &str>) {
        let folder = tempfile::tempdir().unwrap();
        let files = ModelFiles::of(folder.path());
        let tokenizer = train_tokenizer(&["apple"], &Training::default()).unwrap();
        fs::write(files.tokenizer(), tokenizer.json()).unwrap();
        files.write_config(&ModelConfig::tiny(262, 5)).unwrap();
        write(&files.tokenizer_config(), json!({ "chat_template": "{{ messages[0].content }}<|end|>" }));
        change(&files);
        let got = Chat::load(&files).map(|chat| {
            let messages = [Message::text(clawrl_core::Role::User, "x")];
            let mut state = ConversationState::default();
            let ids = state.prompt(&chat, Context { messages: &messages, tools: &[] }).unwrap();
            (chat.tokenizer().decode(ids, MarkupTokens::Keep).unwrap(), chat.stop_ids().to_vec())
        });
        match (got, expected) {
            (Ok((text, stop_ids)), Ok(expected)) => {
                assert_eq!((text.as_str(), stop_ids.as_slice()), expected)
            }
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (got, expected) => panic!("{got:?} instead of {expected:?}"),
        }
    }

    fn write(path: &Path, value: serde_json::Value) {
        fs::write(path, value.to_string()).unwrap();
    }

    #[test]
    fn folders_as_others_lay_them_out() {
        check(|_| {}, Ok(("x<|end|>", &[5])));
        check(
            |files| write(&files.generation_config(), json!({ "eos_token_id": 3 })),
            Ok(("x<|end|>", &[3])),
        );
        check(
            |files| write(&files.generation_config(), json!({ "eos_token_id": [5, 0] })),
            Ok(("x<|end|>", &[5, 0])),
        );
        check(|files| write(&files.generation_config(), json!({})), Ok(("x<|end|>", &[5])));
        let jinja = |files: &ModelFiles| files.config().with_file_name("chat_template.jinja");
        check(|files| fs::write(jinja(files), "{{ messages[0].content }}!").unwrap(), Ok(("x!", &[5])));
        let named = json!({
            "chat_template": [
                { "name": "tool_use", "template": "-" },
                { "name": "default", "template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}" },
            ],
            "bos_token": { "content": "<|user|>", "special": true },
            "eos_token": "<|end|>",
        });
        check(|files| write(&files.tokenizer_config(), named), Ok(("<|user|>x<|end|>", &[5])));
    }

    #[test]
    fn what_is_missing_or_does_not_fit_is_named() {
        check(|files| write(&files.tokenizer_config(), json!({})), Err("there is no chat template"));
        let with_template = |template: &'static str| {
            move |files: &ModelFiles| {
                fs::write(files.config().with_file_name("chat_template.jinja"), template).unwrap();
            }
        };
        let endless = "{% for i in range(90000) %}{% for j in range(99) %}{{ j }}{% endfor %}{% endfor %}";
        check(
            with_template(endless),
            Err("takes too much: more than 1000000 steps; those of nested loops multiply (line 1)"),
        );
        let doubled =
            "{% set n = namespace(s='ab') %}\n{% for i in range(40) %}{% set n.s = n.s + n.s %}{% endfor %}";
        check(with_template(doubled), Err("takes too much: a value of more than 16 MiB (line 2)"));
        let methods = "{% set s = 'ab' * 999999 %}{{ s.replace('', s) }}";
        check(with_template(methods), Err("takes too much: a value of more than 16 MiB (line 1)"));
        for indented in ["([1] * 9999) | tojson(indent=9999)", "[1] | tojson(indent=9999999999999)"] {
            let template = format!("{{{{ {indented} }}}}");
            let written = |files: &ModelFiles| {
                fs::write(files.config().with_file_name("chat_template.jinja"), template).unwrap()
            };
            check(written, Err("takes too much: a value of more than 16 MiB (line 1)"));
        }
        check(|files| fs::remove_file(files.tokenizer_config()).unwrap(), Err("tokenizer_config.json"));
        check(|files| fs::remove_file(files.tokenizer()).unwrap(), Err("tokenizer.json"));
        check(|files| fs::write(files.config(), "{").unwrap(), Err("config.json"));
        check(
            |files| write(&files.generation_config(), json!({ "eos_token_id": [] })),
            Err("`eos_token_id` is empty"),
        );
        check(
            |files| write(&files.generation_config(), json!({ "eos_token_id": 262 })),
            Err("262 is outside"),
        );
        let smaller = |files: &ModelFiles| files.write_config(&ModelConfig::tiny(261, 5)).unwrap();
        check(smaller, Err("has 262 entries and the model knows 261"));
    }
}
