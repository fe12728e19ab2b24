//! Tokenizers and chat templates against Hugging Face transformers (`ci/golden/tokenizer.py`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clawrl_core::{Message, Role, ToolSpec};
use clawrl_torch::{
    Chat, Context, ConversationState, DEFAULT_TEMPLATE, END, MarkupTokens, Tokenizer, Training,
    train_tokenizer,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    texts: Vec<GoldenText>,
    default: Vec<GoldenChat>,
    elaborate: Vec<GoldenChat>,
    tools: Vec<GoldenTool>,
}

#[derive(Deserialize)]
struct GoldenText {
    text: String,
    content: Vec<u32>,
    markup: Vec<u32>,
}

#[derive(Deserialize)]
struct GoldenChat {
    messages: Vec<(Role, String)>,
    tools: bool,
    text: String,
    ids: Vec<u32>,
}

#[derive(Deserialize)]
struct GoldenTool {
    function: GoldenFunction,
}

#[derive(Deserialize)]
struct GoldenFunction {
    name: String,
    description: String,
    parameters: serde_json::Value,
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tokenizer").join(name)
}

fn golden() -> Golden {
    serde_json::from_str(&fs::read_to_string(file("cases.json")).unwrap()).unwrap()
}

#[test]
fn training_gives_the_committed_tokenizer() {
    let corpus = fs::read_to_string(file("corpus.txt")).unwrap();
    let lines: Vec<&str> = corpus.lines().collect();
    let trained = train_tokenizer(&lines, &Training::default()).unwrap();
    let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tokenizer.json");
    fs::write(&fresh, trained.json()).unwrap();
    let committed = fs::read_to_string(file("tokenizer.json")).unwrap_or_default();
    assert!(trained.json() == committed, "training gives another tokenizer: {}", fresh.display());
}

#[test]
fn texts_have_the_ids_of_transformers() {
    let tokenizer = Tokenizer::load(&file("tokenizer.json")).unwrap();
    for GoldenText { text, content, markup } in golden().texts {
        assert_eq!(tokenizer.encode_content(&text).unwrap(), content, "{text:?}");
        assert_eq!(tokenizer.encode_markup(&text).unwrap(), markup, "{text:?}");
        assert_eq!(tokenizer.decode(&content, MarkupTokens::Keep).unwrap(), text);
    }
}

#[test]
fn conversations_have_the_ids_of_transformers() {
    let golden = golden();
    let tools: Vec<ToolSpec> = golden
        .tools
        .into_iter()
        .map(|GoldenTool { function: GoldenFunction { name, description, parameters } }| ToolSpec {
            name,
            description,
            parameters,
            text_argument: None,
        })
        .collect();
    let elaborate = fs::read_to_string(file("elaborate.jinja")).unwrap();
    for (template, chats) in [(DEFAULT_TEMPLATE, golden.default), (&elaborate, golden.elaborate)] {
        let tokenizer = Tokenizer::load(&file("tokenizer.json")).unwrap();
        let end = tokenizer.added_token(END).unwrap();
        let chat = Chat::new(tokenizer, template.to_owned(), BTreeMap::new(), vec![end]).unwrap();
        for GoldenChat { messages, tools: with_tools, text, ids } in chats {
            let messages: Vec<Message> =
                messages.iter().map(|(role, content)| Message::text(*role, content.as_str())).collect();
            let tools: &[ToolSpec] = if with_tools { &tools } else { &[] };
            let mut state = ConversationState::default();
            let got = state.prompt(&chat, Context { messages: &messages, tools }).unwrap();
            assert_eq!(chat.tokenizer().decode(got, MarkupTokens::Keep).unwrap(), text);
            assert_eq!(got, ids, "{text:?}");
        }
    }
}
