//! Facts about a model from a server's list of models.

use serde_json::Value;

use crate::secret::Secret;
use crate::server_text::server_text;

/// Facts about a model from a server's list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// Some listed names, without the key, if the model is not among them.
    pub others: Vec<String>,
    /// Context length in tokens, if the list states it.
    pub context: Option<usize>,
}

/// Maximum number of names to report.
const LISTED: usize = 12;

/// Fields in which servers state the context length: vLLM and SGLang, OpenRouter and Groq, LM Studio, llama.cpp.
const CONTEXTS: [&str; 5] =
    ["/max_model_len", "/context_length", "/context_window", "/loaded_context_length", "/meta/n_ctx"];

pub(crate) fn listed(list: &str, model: &str, key: Option<&Secret>) -> Listed {
    let list: Value = serde_json::from_str(list).unwrap_or_default();
    let entries = || list["data"].as_array().into_iter().flatten();
    let id = |entry: &Value| entry["id"].as_str().map(str::to_owned);
    // Ollama lists `NAME:latest` for a requested `NAME`.
    let is_ours =
        |entry: &&Value| id(entry).is_some_and(|id| id == model || id.strip_suffix(":latest") == Some(model));
    let Some(entry) = entries().find(is_ours) else {
        let others = entries().filter_map(id).take(LISTED).map(|id| server_text(&id, key)).collect();
        return Listed { others, context: None };
    };
    let context =
        CONTEXTS.iter().find_map(|field| entry.pointer(field)?.as_u64().filter(|tokens| *tokens > 0));
    Listed { others: Vec::new(), context: context.and_then(|tokens| usize::try_from(tokens).ok()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_model_is_found_with_what_it_reads_and_others_are_told() {
        let check = |entry: Value, others: &[&str], context: Option<usize>| {
            let list = json!({"data": [entry, {"id": "other"}]}).to_string();
            let others = others.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(listed(&list, "able", None), Listed { others, context }, "{list}");
        };
        check(json!({"id": "able", "max_model_len": 4096}), &[], Some(4096));
        check(json!({"id": "able:latest", "context_length": 8192}), &[], Some(8192));
        check(json!({"id": "able", "meta": {"n_ctx_train": 131_072}}), &[], None);
        check(json!({"id": "able", "meta": {"n_ctx_train": 131_072, "n_ctx": 4096}}), &[], Some(4096));
        check(json!({"id": "able", "max_model_len": null}), &[], None);
        check(json!({"id": "able", "max_model_len": -1}), &[], None);
        check(json!({"id": "unable", "max_model_len": 4096}), &["unable", "other"], None);
        check(json!({"id": 7}), &["other"], None);
    }

    #[test]
    fn what_is_no_list_says_nothing() {
        for text in ["", "[]", "{\"data\": 3}", "<html>"] {
            assert_eq!(listed(text, "able", None), Listed::default(), "{text}");
        }
    }
}
