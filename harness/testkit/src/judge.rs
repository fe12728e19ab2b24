//! A judge from a closure.

use std::future::pending;

use clawrl_core::{Ballot, BoxFuture, Judge, Question};

/// Answers as its closure says; never, where that gives nothing.
pub struct ScriptedJudge<F>(F);

impl<F: Fn(&Question<'_>) -> Option<Ballot> + Send + Sync> ScriptedJudge<F> {
    /// A judge that answers as the closure says.
    #[must_use]
    pub fn new(ballot: F) -> Self {
        Self(ballot)
    }
}

impl<F: Fn(&Question<'_>) -> Option<Ballot> + Send + Sync> Judge for ScriptedJudge<F> {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Ballot> {
        Box::pin(async move {
            match self.0(&question) {
                Some(ballot) => ballot,
                None => pending().await,
            }
        })
    }
}
