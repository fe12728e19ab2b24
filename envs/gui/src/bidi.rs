//! WebDriver BiDi: commands and events over one WebSocket, beside the classic commands of the same session.
//!
//! B1. Every command gets one answer, or an error when the connection has ended.
//! B2. Events go to one receiver, in order. Events that are not received in time are dropped, and their long texts are
//! cut, so that a page that causes many cannot use up memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clawrl_core::read_json;
use futures_util::{SinkExt as _, StreamExt as _};
use http::Request;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// Largest message: the worst-case picture of a window within the limits, four bytes per pixel, in base64.
const MAX_BYTES: usize = 32 << 20;

/// Time for a browser to answer a command.
const COMMAND_LIMIT: Duration = Duration::from_secs(20);

const MAX_EVENTS: usize = 4096;

/// Bytes of a text in an event: pages choose addresses, messages and names. The limit for everything in one list is the
/// same.
const MAX_TEXT_BYTES: usize = 8 << 10;

#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum BidiError {
    #[error("{error}: {message}")]
    Refused {
        /// The protocol's error code, such as `no such user context`.
        error: String,
        message: String,
    },
    #[error("lost the connection to the browser")]
    Lost,
    #[error("the browser did not answer `{method}` within {COMMAND_LIMIT:?}")]
    Late { method: String },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    /// `browsingContext.userPromptOpened`.
    pub(crate) method: String,
    pub(crate) params: Value,
}

/// The connection of a session. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct Bidi {
    shared: Arc<Shared>,
    outgoing: mpsc::UnboundedSender<Message>,
    next: AtomicU64,
    task: tokio::task::AbortHandle,
}

/// Callers waiting for answers, by command id. `None` when the connection has ended.
type Waiting = Option<HashMap<u64, oneshot::Sender<Result<Value, BidiError>>>>;

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Each change is one insert, remove or take.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Deserialize)]
struct Incoming {
    #[serde(rename = "type")]
    kind: String,
    id: Option<u64>,
    #[serde(default)]
    result: Value,
    error: Option<String>,
    message: Option<String>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
}

impl Bidi {
    /// Performs the WebSocket handshake on a connection; the request contains the address that the session named.
    ///
    /// # Errors
    /// [`BidiError::Lost`] when the other side does not speak WebSocket.
    pub(crate) async fn connect<S>(
        stream: S,
        request: Request<()>,
    ) -> Result<(Self, mpsc::Receiver<Event>), BidiError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let config =
            WebSocketConfig::default().max_message_size(Some(MAX_BYTES)).max_frame_size(Some(MAX_BYTES));
        let (socket, _) =
            client_async_with_config(request, stream, Some(config)).await.map_err(|_| BidiError::Lost)?;
        let (mut sink, mut source) = socket.split();
        let (outgoing, mut to_send) = mpsc::unbounded_channel();
        let (tell, events) = mpsc::channel(MAX_EVENTS);
        let shared = Arc::new(Shared { waiting: Mutex::new(Some(HashMap::new())) });
        let hearing = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            loop {
                tokio::select! {
                    message = to_send.recv() => {
                        let Some(message) = message else { break };
                        if sink.send(message).await.is_err() {
                            break;
                        }
                    }
                    message = source.next() => match message {
                        Some(Ok(Message::Text(text))) => deliver(&hearing, &tell, &text),
                        Some(Ok(Message::Close(_)) | Err(_)) | None => break,
                        Some(Ok(_)) => {}
                    },
                }
            }
            // Waiting callers notice the end of their channels.
            hearing.waiting().take();
        });
        let bidi = Self { shared, outgoing, next: AtomicU64::new(1), task: task.abort_handle() };
        Ok((bidi, events))
    }

    /// Sends a command, and returns its result.
    pub(crate) async fn command(&self, method: &str, params: Value) -> Result<Value, BidiError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        self.shared.waiting().as_mut().ok_or(BidiError::Lost)?.insert(id, answer);
        let text = json!({ "id": id, "method": method, "params": params }).to_string();
        self.outgoing.send(Message::Text(text.into())).map_err(|_| BidiError::Lost)?;
        match tokio::time::timeout(COMMAND_LIMIT, answered).await {
            Ok(answer) => answer.unwrap_or(Err(BidiError::Lost)),
            Err(_late) => {
                if let Some(waiting) = self.shared.waiting().as_mut() {
                    waiting.remove(&id);
                }
                Err(BidiError::Late { method: method.to_owned() })
            }
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.shared.waiting().is_none()
    }
}

impl Drop for Bidi {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn deliver(shared: &Shared, events: &mpsc::Sender<Event>, text: &str) {
    // Texts of pages are in units of 16 bits, and may be cut within a character.
    let incoming: Incoming = match read_json(text) {
        Ok(incoming) => incoming,
        Err(error) => {
            tracing::debug!(%error, "invalid message from the browser");
            return;
        }
    };
    if let (Some(method), "event") = (incoming.method, incoming.kind.as_str()) {
        if events.try_send(Event { method, params: cut(incoming.params) }).is_err() {
            tracing::debug!("dropped an event of the browser");
        }
        return;
    }
    let Some(id) = incoming.id else { return };
    let answer = shared.waiting().as_mut().and_then(|waiting| waiting.remove(&id));
    let result = match incoming.error {
        None => Ok(incoming.result),
        Some(error) => Err(BidiError::Refused { error, message: incoming.message.unwrap_or_default() }),
    };
    // The caller may have dropped its future.
    if let Some(answer) = answer {
        let _ = answer.send(result);
    }
}

/// An event's parameters with long texts cut. Keys come from the protocol, and are few.
fn cut(params: Value) -> Value {
    let Value::Object(fields) = params else { return Value::Null };
    let mut within = MAX_TEXT_BYTES;
    let fields = fields.into_iter().map(|(name, value)| {
        let cut = match value {
            Value::Array(_) | Value::Object(_) => cut_to(value, &mut within),
            value => cut_to(value, &mut MAX_TEXT_BYTES.clone()),
        };
        (name, cut)
    });
    Value::Object(fields.collect())
}

/// Limits a value to about `left` bytes, which it reduces.
fn cut_to(value: Value, left: &mut usize) -> Value {
    // The cost of a value besides its text.
    const EACH: usize = 16;
    *left = left.saturating_sub(EACH);
    match value {
        Value::String(mut text) => {
            text.truncate(text.floor_char_boundary(*left));
            text.shrink_to_fit();
            *left -= text.len();
            Value::String(text)
        }
        Value::Array(all) => {
            let mut kept = Vec::new();
            for one in all {
                if *left == 0 {
                    break;
                }
                kept.push(cut_to(one, left));
            }
            Value::Array(kept)
        }
        Value::Object(all) => {
            let mut kept = Map::new();
            for (name, one) in all {
                if *left < name.len() {
                    break;
                }
                *left -= name.len();
                kept.insert(name, cut_to(one, left));
            }
            Value::Object(kept)
        }
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(params: Value, expected: Value) {
        assert_eq!(cut(params), expected);
    }

    #[test]
    fn b1_lone_surrogate_is_still_an_answer() {
        let (shared, (events, _taken)) = (Shared::default(), mpsc::channel(1));
        let (answer, mut answered) = oneshot::channel();
        *shared.waiting() = Some(HashMap::from([(7, answer)]));
        deliver(&shared, &events, r#"{"type":"success","id":7,"result":{"value":"a \ud83d"}}"#);
        assert_eq!(answered.try_recv().unwrap().unwrap(), json!({ "value": "a \u{fffd}" }));
    }

    #[test]
    fn b2_long_event_texts_are_cut_short_ones_stay() {
        let small = json!({
            "context": "1", "children": null, "timestamp": 1.5, "args": [{ "type": "string", "value": "\u{e9}" }],
        });
        check(small.clone(), small);
        check(json!("text"), Value::Null);
        // A character at the cut is dropped whole.
        let long = "\u{20ac}".repeat(MAX_TEXT_BYTES);
        let cut = "\u{20ac}".repeat((MAX_TEXT_BYTES - 16) / 3);
        check(
            json!({ "message": long, "type": "alert", "url": long }),
            json!({ "message": cut, "type": "alert", "url": cut }),
        );
        let deep =
            (0..10_000).map(|number| json!([number, { "long name": "long text" }])).collect::<Vec<_>>();
        let within = super::cut(json!({ "args": deep, "stack": deep, "type": "error" }));
        assert!(within.to_string().len() < 2 * MAX_TEXT_BYTES, "{within}");
        assert_eq!(within["type"], "error");
    }
}
