//! A scripted policy whose answer depends on the last message.
//!
//! | message | answer |
//! |---|---|
//! | `think` | reasoning and `thought` |
//! | `wait` | `Hel`, then `lo` when the test opens the gate |
//! | `call` | a call of a tool |
//! | `short` | `cut`, ended by a limit |
//! | `busy`, `long`, `break` | 503 with a wait; too long; an error behind `half` |
//! | `hostile`, `repeat TEXT` | what would act on a terminal; the text, a character a token |
//! | `system` | the system prompt |
//! | anything else | what was said, and how many messages came before |

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clawrl_core::{FinishReason, Usage};
use clawrl_gateway::{
    AnswerRequest, Backend, BackendError, Delta, End, Piece, Refusal, StartedAnswer, Token, UserId,
};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::unfold;
use serde_json::Value;
use tokio::sync::Semaphore;

/// The next step of an answer.
enum Say {
    Piece(Piece),
    Gate,
    Fail(BackendError),
}

/// The policy.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) gate: Arc<Semaphore>,
    /// One permit for each dropped answer, finished or not.
    pub(super) dropped: Arc<Semaphore>,
    /// The version that answers.
    pub(super) version: AtomicU64,
    /// Messages of each request.
    pub(super) asked: Mutex<Vec<(String, Vec<Value>)>>,
}

impl Policy {
    pub(super) fn new() -> Arc<Self> {
        let none = || Arc::new(Semaphore::new(0));
        Arc::new(Self { gate: none(), dropped: none(), version: AtomicU64::new(7), asked: Mutex::default() })
    }
}

fn unavailable() -> BackendError {
    let retry_after = Some(Duration::from_secs(7));
    BackendError::Unavailable { message: "the model rests".to_owned(), retry_after }
}

fn token(text: &str) -> Say {
    Say::Piece(Piece::Token(Token { bytes: text.as_bytes().to_vec(), logprob: -0.5, ..Token::default() }))
}

fn delta(delta: Delta) -> Say {
    Say::Piece(Piece::Delta(delta))
}

fn script(messages: &[Value]) -> Result<Vec<Say>, BackendError> {
    let last = messages.last().unwrap()["content"].as_str().unwrap();
    let ended = |finish| {
        let usage = Some(Usage::reported(messages.len() as u64, 2));
        Say::Piece(Piece::End(End { finish, usage }))
    };
    let end = || ended(FinishReason::Stop);
    Ok(match last {
        "think" => vec![token("<think>let me "), token("see</think>"), token("thought"), end()],
        "wait" => vec![token("Hel"), Say::Gate, token("lo"), end()],
        "call" => {
            let calls = vec![("look".to_owned(), "{\"at\": 1}".to_owned())];
            vec![delta(Delta { text: "I look.".to_owned(), calls, ..Delta::default() }), end()]
        }
        "short" => vec![token("cut"), ended(FinishReason::Length)],
        "busy" => return Err(unavailable()),
        "long" => return Err(BackendError::NoRoom("9 of 8 tokens".to_owned())),
        "break" => vec![token("half"), Say::Fail(unavailable())],
        "hostile" => vec![token("a\u{1b}[2Jb\u{202e}c"), end()],
        "system" => vec![token(messages[0]["content"].as_str().unwrap()), end()],
        other => match other.strip_prefix("repeat ") {
            Some(text) => {
                let tokens = text.chars().map(|c| token(c.encode_utf8(&mut [0; 4])));
                tokens.chain([end()]).collect()
            }
            None => {
                vec![token("You said "), token(&format!("{other} after {}", messages.len() - 1)), end()]
            }
        },
    })
}

struct Dropping(Arc<Semaphore>);

impl Drop for Dropping {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

impl Backend for Policy {
    fn models(&self) -> Vec<String> {
        vec!["policy".to_owned(), "other".to_owned()]
    }

    fn context(&self) -> Option<usize> {
        Some(64)
    }

    fn version(&self, _: &UserId) -> Option<u64> {
        Some(self.version.load(Ordering::SeqCst))
    }

    fn refusal(&self, _: &AnswerRequest, demands: &[Refusal]) -> Option<Refusal> {
        demands.first().cloned()
    }

    fn start(&self, ask: AnswerRequest) -> BoxFuture<'_, Result<StartedAnswer, BackendError>> {
        let messages = ask.body["messages"].as_array().unwrap().clone();
        let says = script(&messages);
        let model = ask.body["model"].as_str().unwrap().to_owned();
        self.asked.lock().unwrap().push((model, messages));
        let gate = Arc::clone(&self.gate);
        let dropping = Dropping(Arc::clone(&self.dropped));
        Box::pin(async move {
            let says: VecDeque<Say> = says?.into();
            let pieces = unfold((says, dropping), move |(mut says, dropping)| {
                let gate = Arc::clone(&gate);
                async move {
                    let mut say = says.pop_front()?;
                    while matches!(say, Say::Gate) {
                        gate.acquire().await.unwrap().forget();
                        say = says.pop_front()?;
                    }
                    let piece = match say {
                        Say::Piece(piece) => Ok(piece),
                        Say::Fail(error) => Err(error),
                        Say::Gate => unreachable!("passed above"),
                    };
                    Some((piece, (says, dropping)))
                }
            });
            let prompt_ids = Some(Arc::from([1, 2, 3]));
            Ok(StartedAnswer { prompt_ids, in_reasoning: false, adapter: None, pieces: pieces.boxed() })
        })
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}
