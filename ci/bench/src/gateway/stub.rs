//! The policy of both sides: it replies with prepared words, one after the other.
//!
//! All words have the same length, so that different answers have the same size. Answers differ, as those of a real policy do:
//! equal answers would make the gateway's work easier.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clawrl_core::SplitMix64;
use tokio::sync::watch;

/// The model's name.
pub(super) const MODEL: &str = "stub";
/// Bytes of a word, its space included.
pub(super) const WORD_BYTES: usize = 5;
/// Number of different words.
const WORDS: u32 = 1_000;

/// The policy.
#[derive(Debug)]
pub(super) struct Stub {
    words: Vec<String>,
    tokens: u32,
    /// Counts steps; `None` if words take no time.
    steps: Option<watch::Sender<u64>>,
    /// Answers started so far.
    answers: AtomicU64,
}

/// A word of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word<'a> {
    pub(super) number: u32,
    pub(super) text: &'a str,
}

/// A running answer.
#[derive(Debug)]
pub(super) struct Answer {
    stub: Arc<Stub>,
    random: SplitMix64,
    left: u32,
    steps: Option<watch::Receiver<u64>>,
}

impl Stub {
    /// A policy with `tokens` words per answer, each after a step of this length; all at once if it is zero. Call inside a
    /// runtime; the steps end with it.
    pub(super) fn new(tokens: u32, step: Duration) -> Arc<Self> {
        let steps = (step > Duration::ZERO).then(|| watch::Sender::new(0u64));
        if let Some(steps) = steps.clone() {
            let mut ticks = tokio::time::interval(step);
            tokio::spawn(async move {
                loop {
                    ticks.tick().await;
                    steps.send_modify(|count| *count += 1);
                }
            });
        }
        let words = (0..WORDS).map(|number| format!(" w{number:03}")).collect();
        Arc::new(Self { words, tokens, steps, answers: AtomicU64::new(0) })
    }

    /// Begins an answer.
    pub(super) fn answer(self: &Arc<Self>) -> Answer {
        Answer {
            stub: Arc::clone(self),
            random: SplitMix64::new(self.answers.fetch_add(1, Ordering::Relaxed)),
            left: self.tokens,
            steps: self.steps.as_ref().map(watch::Sender::subscribe),
        }
    }
}

impl Answer {
    /// The next word when its step is over; `None` after the last.
    pub(super) async fn next(&mut self) -> Option<Word<'_>> {
        if self.left == 0 {
            return None;
        }
        if let Some(steps) = &mut self.steps {
            steps.changed().await.ok()?;
        }
        self.left -= 1;
        let number = self.random.below(u64::from(WORDS)) as u32;
        let text = self.stub.words.get(number as usize)?;
        Some(Word { number, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text of an answer with this number of words.
    async fn check(stub: &Arc<Stub>, tokens: u32) -> String {
        let mut answer = stub.answer();
        let mut said = String::new();
        let mut count = 0;
        while let Some(word) = answer.next().await {
            assert_eq!(word.text.len(), WORD_BYTES);
            said += word.text;
            count += 1;
        }
        assert_eq!(count, tokens);
        said
    }

    #[test]
    fn answers_differ_at_equal_length() -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            for step in [Duration::ZERO, Duration::from_millis(1)] {
                let stub = Stub::new(8, step);
                let (first, second) = (check(&stub, 8).await, check(&stub, 8).await);
                assert_ne!(first, second);
            }
        });
        Ok(())
    }
}
