//! Converts a server's result to the policy's text.
//!
//! Texts are joined by newlines. Content that is not text is named in brackets; a structured result is shown if there
//! is no text.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

use crate::result::CallResult;
use crate::struck::Struck;

/// Maximum bytes of a result.
const TEXT_BYTES: usize = 1 << 20;

/// The result of a call, with secrets redacted.
pub(super) fn call_result(result: &CallToolResult, struck: &Struck) -> CallResult {
    let has_text = result.content.iter().any(|block| matches!(block, ContentBlock::Text(_)));
    let mut parts: Vec<String> = result.content.iter().map(part).collect();
    if let Some(structured) = result.structured_content.as_ref().filter(|_| !has_text) {
        parts.push(structured.to_string());
    }
    let mut text = parts.join("\n");
    struck.clean(&mut text);
    if text.len() > TEXT_BYTES {
        let kept = text.floor_char_boundary(TEXT_BYTES);
        let left_out = text.len() - kept;
        text.truncate(kept);
        text.push_str(&format!("\n[... {left_out} bytes left out ...]"));
    }
    if result.is_error == Some(true) { CallResult::failed(text) } else { CallResult::done(text) }
}

fn part(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => format!("[image: {}, {} bytes]", image.mime_type, decoded(&image.data)),
        ContentBlock::Audio(audio) => format!("[audio: {}, {} bytes]", audio.mime_type, decoded(&audio.data)),
        ContentBlock::ResourceLink(link) => format!("[resource: {}]", link.uri),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[resource: {uri}]\n{text}"),
            ResourceContents::BlobResourceContents { uri, blob, .. } => {
                format!("[resource: {uri}, {} bytes]", decoded(blob))
            }
            _ => "[resource of an unknown kind]".to_owned(),
        },
        // Kinds of a later protocol version.
        _ => "[content of an unknown kind]".to_owned(),
    }
}

/// Decoded length of a base64 text, bytes.
fn decoded(text: &str) -> usize {
    let digits = text.trim_end_matches('=').len();
    digits * 3 / 4
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::result::Outcome;

    fn check(result: Value, outcome: Outcome, expected: &str) {
        let result: CallToolResult = serde_json::from_value(result).unwrap();
        let found = call_result(&result, &Struck::new([("KEY".to_owned(), "k3y-k3y-k3y".to_owned())]));
        assert_eq!((found.outcome, found.text.as_str()), (outcome, expected));
    }

    #[test]
    fn secrets_are_redacted_before_cutting() {
        let long = format!("{}k3y-k3y-k3y and more", "x".repeat(TEXT_BYTES - 5));
        let expected = format!("{}[KEY]\n[... 9 bytes left out ...]", "x".repeat(TEXT_BYTES - 5));
        check(json!({"content": [{"type": "text", "text": long}]}), Outcome::Done, &expected);
        let structured = json!({"content": [], "structuredContent": {"k3y-k3y-k3y": 1}});
        check(structured, Outcome::Done, r#"{"[KEY]":1}"#);
    }

    #[test]
    fn texts_are_joined_and_the_rest_is_named() {
        let done = Outcome::Done;
        check(
            json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
            done,
            "a\nb",
        );
        let text = json!({"content": [{"type": "text", "text": "a"}], "structuredContent": {"n": 1}});
        check(text, done, "a");
        check(json!({"content": [], "structuredContent": {"n": 1}}), done, r#"{"n":1}"#);
        let image = json!({"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]});
        check(image, done, "[image: image/png, 3 bytes]");
        let link = json!({"content": [{"type": "resource_link", "uri": "file:///a", "name": "a"}]});
        check(link, done, "[resource: file:///a]");
        let inner = json!({"content": [{"type": "resource", "resource": {"uri": "x:/a", "text": "t"}}]});
        check(inner, done, "[resource: x:/a]\nt");
        check(
            json!({"content": [{"type": "text", "text": "no"}], "isError": true}),
            Outcome::Failed,
            "error: no",
        );
    }
}
