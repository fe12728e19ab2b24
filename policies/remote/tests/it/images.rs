//! Conversations with images.

use clawrl_core::{
    ActionFormat, BlobRef, BlobStore, MemoryBlobs, Message, Part, RemoteDialect, RemoteSpec, Retry, Role,
    ToolCall,
};
use serde_json::{Value, json};

use crate::stage::{Turn, faulted, policy, settings};
use crate::stub::{Answer, Stub};

/// `picture` in base64.
const PICTURE: &str = "cGljdHVyZQ==";

/// A task that shows an image, a call, and its result with another.
async fn conversation(blobs: &MemoryBlobs) -> Vec<Message> {
    let image =
        |bytes: &'static [u8]| async { blobs.keep("image/png", bytes.to_vec()).await.unwrap().into() };
    let mut task = Message::text(Role::User, "Do it.");
    task.parts.push(image(b"picture").await);
    task.parts.push(Part::Text { text: "And soon.".to_owned() });
    let mut reply = Message::text(Role::Assistant, "I look.");
    reply.tool_calls =
        ["a", "b"].map(|id| ToolCall { id: id.to_owned(), ..ToolCall::new("run", json!({})) }).to_vec();
    let result =
        |id: &str| Message { tool_call_id: Some(id.to_owned()), ..Message::text(Role::Tool, "done") };
    let mut last = result("b");
    last.parts.push(image(b"picture").await);
    vec![task, reply, result("a"), last]
}

async fn sent(spec: RemoteSpec, stub: &Stub, blobs: &MemoryBlobs) -> Value {
    let conversation = conversation(blobs).await;
    let turn =
        Turn { format: ActionFormat::ToolCalls, conversation: &conversation, blobs, ..Turn::default() };
    turn.ask(&policy(spec)).await.unwrap();
    stub.asked()[0].body["messages"].clone()
}

#[tokio::test]
async fn completions_have_images_of_results_in_a_message_of_the_user() {
    let (stub, blobs) = (Stub::start(|_| Answer::said("ls")).await, MemoryBlobs::default());
    let image =
        json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PICTURE}")}});
    let call =
        |id: &str| json!({"id": id, "type": "function", "function": {"name": "run", "arguments": "{}"}});
    let expected = json!([
        {"role": "user", "content": [{"type": "text", "text": "Do it."}, image, {"type": "text", "text": "And soon."}]},
        {"role": "assistant", "content": "I look.", "tool_calls": [call("a"), call("b")]},
        {"role": "tool", "tool_call_id": "a", "content": "done"},
        {"role": "tool", "tool_call_id": "b", "content": "done"},
        {"role": "user", "content": [{"type": "text", "text": "What the result shows:"}, image]},
    ]);
    assert_eq!(sent(settings(&stub), &stub, &blobs).await, expected);
}

#[tokio::test]
async fn messages_of_anthropic_have_them_where_they_were_seen() {
    let answer = json!({
        "content": [{"type": "text", "text": "ls"}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 1},
    });
    let stub = Stub::start(move |_| Answer::json("200 OK", &answer)).await;
    let blobs = MemoryBlobs::default();
    let image =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}});
    let text = |text: &str| json!({"type": "text", "text": text});
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "run", "input": {}});
    let expected = json!([
        {"role": "user", "content": [text("Do it."), image, text("And soon.")]},
        {"role": "assistant", "content": [text("I look."), call("a"), call("b")]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "done"},
            {"type": "tool_result", "tool_use_id": "b", "content": [text("done"), image]},
        ]},
    ]);
    let spec = RemoteSpec { dialect: RemoteDialect::Anthropic, stream: false, ..settings(&stub) };
    assert_eq!(sent(spec, &stub, &blobs).await, expected);
}

#[tokio::test]
async fn what_cannot_be_sent_is_a_fault_by_name() {
    let stub = Stub::start(|_| Answer::said("ls")).await;
    let policy = policy(settings(&stub));
    let check = async |role: Role, image: BlobRef, code: &str| {
        let mut message = Message::text(role, "x");
        message.parts.push(image.into());
        let turn = Turn { conversation: &[message], ..Turn::default() };
        faulted(turn.ask(&policy).await, code, Retry::Never);
    };
    check(Role::User, BlobRef::of("image/png", b"never kept"), "image-missing").await;
    check(Role::User, BlobRef::of("image/tiff", b"x"), "image-unsupported").await;
    assert_eq!(stub.asked().len(), 0);
}
