//! A judge from a closure.

use std::future::pending;

use clawrl_core::{BoxFuture, Judge, JudgeRequest, JudgeResponse};

/// Answers as its closure says; never, where that gives nothing.
pub struct ScriptedJudge<F>(F);

impl<F: Fn(&JudgeRequest<'_>) -> Option<JudgeResponse> + Send + Sync> ScriptedJudge<F> {
    /// A judge that answers as the closure says.
    #[must_use]
    pub fn new(response: F) -> Self {
        Self(response)
    }
}

impl<F: Fn(&JudgeRequest<'_>) -> Option<JudgeResponse> + Send + Sync> Judge for ScriptedJudge<F> {
    fn ask<'a>(&'a self, question: JudgeRequest<'a>) -> BoxFuture<'a, JudgeResponse> {
        Box::pin(async move {
            match self.0(&question) {
                Some(response) => response,
                None => pending().await,
            }
        })
    }
}
