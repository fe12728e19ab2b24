//! A scripted policy, which a test can pause.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use clawrl_core::{FinishReason, Usage};
use clawrl_gateway::{
    AnswerRequest, Backend, BackendError, End, Piece, Prompt, Refusal, StartedAnswer, Token, UserId,
};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::unfold;
use tokio::sync::Semaphore;

/// A step of an answer.
#[derive(Debug, Clone)]
pub(super) enum Say {
    /// A token with this text.
    Token(String),
    /// This piece.
    Piece(Piece),
    /// Waits until the test opens the gate.
    Gate,
    /// The end, with its reason.
    End(FinishReason),
    /// A failure.
    Fail(BackendError),
}

/// Tokens with these texts, and the end.
pub(super) fn said(tokens: &[&str]) -> Vec<Say> {
    let tokens = tokens.iter().map(|token| Say::Token((*token).to_owned()));
    tokens.chain([Say::End(FinishReason::Stop)]).collect()
}

/// The policy.
#[derive(Debug)]
pub(super) struct Scripted {
    /// Answers in order of the requests; the last one repeats.
    answers: Mutex<VecDeque<Result<Vec<Say>, BackendError>>>,
    pub(super) gate: Arc<Semaphore>,
    /// Answers that were dropped, at their end or before.
    pub(super) dropped: Arc<AtomicUsize>,
    pub(super) asks: Mutex<Vec<AnswerRequest>>,
    pub(super) dropped_gate: Arc<Semaphore>,
}

impl Scripted {
    pub(super) fn new(answers: Vec<Result<Vec<Say>, BackendError>>) -> Arc<Self> {
        Arc::new(Self {
            answers: Mutex::new(answers.into()),
            gate: Arc::new(Semaphore::new(0)),
            dropped: Arc::default(),
            asks: Mutex::default(),
            dropped_gate: Arc::new(Semaphore::new(0)),
        })
    }

    /// Returns when an answer was dropped.
    pub(super) async fn one_dropped(&self) {
        self.dropped_gate.acquire().await.unwrap().forget();
    }
}

struct Dropping(Arc<AtomicUsize>, Arc<Semaphore>);

impl Drop for Dropping {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        self.1.add_permits(1);
    }
}

impl Backend for Scripted {
    fn models(&self) -> Vec<String> {
        vec!["policy".to_owned(), "other".to_owned()]
    }

    fn context(&self) -> Option<usize> {
        Some(64)
    }

    fn version(&self, _: &UserId) -> Option<u64> {
        Some(7)
    }

    fn refusal(&self, _: &AnswerRequest, demands: &[Refusal]) -> Option<Refusal> {
        demands.first().cloned()
    }

    fn start(&self, ask: AnswerRequest) -> BoxFuture<'_, Result<StartedAnswer, BackendError>> {
        let prompt_ids = match &ask.prompt {
            Prompt::Ids(ids) => Arc::from(ids.as_slice()),
            _ => Arc::from([1, 2, 3]),
        };
        self.asks.lock().unwrap().push(ask);
        let answer = {
            let mut answers = self.answers.lock().unwrap();
            if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() }
        };
        let gate = Arc::clone(&self.gate);
        let dropping = Dropping(Arc::clone(&self.dropped), Arc::clone(&self.dropped_gate));
        Box::pin(async move {
            let mut says: VecDeque<Say> = answer?.into();
            if matches!(says.front(), Some(Say::Gate)) {
                says.pop_front();
                gate.acquire().await.unwrap().forget();
            }
            let pieces = unfold((says, 0u32, dropping), move |(mut says, id, dropping)| {
                let gate = Arc::clone(&gate);
                async move {
                    let mut say = says.pop_front()?;
                    while matches!(say, Say::Gate) {
                        gate.acquire().await.unwrap().forget();
                        say = says.pop_front()?;
                    }
                    let usage = Some(Usage::reported(3, u64::from(id)));
                    let piece = match say {
                        Say::Token(text) => Ok(Piece::Token(Token {
                            id,
                            bytes: text.into_bytes(),
                            logprob: -0.5,
                            version: 7,
                            ..Token::default()
                        })),
                        Say::Piece(piece) => Ok(piece),
                        Say::End(finish) => Ok(Piece::End(End { finish, usage })),
                        Say::Fail(error) => Err(error),
                        Say::Gate => unreachable!("passed above"),
                    };
                    Some((piece, (says, id + 1, dropping)))
                }
            });
            Ok(StartedAnswer {
                prompt_ids: Some(prompt_ids),
                in_reasoning: false,
                adapter: None,
                pieces: pieces.boxed(),
            })
        })
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}
