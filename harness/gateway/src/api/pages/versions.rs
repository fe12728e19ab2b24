//! `/versions`: the trainer's status and its commands, versions that were in use, updates with the visitor's turns, and charts of their metrics.

use serde::Serialize;
use serde_json::json;

use super::curves::{FRAME, charts};
use super::document::{Page, PageError};
use super::login::Visitor;
use super::render::count;
use crate::api::error::ApiError;
use crate::api::gateway::Gateway;
use crate::{TrainerView, UpdateId, VersionView};

/// Updates per page.
const UPDATES: u32 = 25;
/// Versions that are listed.
const VERSIONS: u32 = 50;
/// Versions that are listed without unfolding the others.
const UNFOLDED: usize = 6;
/// Updates per chart.
const POINTS: u32 = 100;

pub(super) async fn page(
    gateway: &Gateway,
    visitor: &Visitor,
    before: Option<UpdateId>,
) -> Result<Page, PageError> {
    let (recorder, user) = (&gateway.recorder, &visitor.user);
    // One more, to know whether there is another page.
    let mut updates = recorder.update_summaries(user, before, UPDATES + 1).await?;
    let has_more = updates.len() > UPDATES as usize;
    updates.truncate(UPDATES as usize);
    let is_first = before.is_none();
    let (mut trainer, mut versions, mut trainer_error) = (None, None, None);
    let mut metrics = Vec::new();
    if is_first {
        if let Some(learner) = &gateway.trainer {
            match learner.view(user).await {
                Ok(view) => {
                    let listed = recorder.versions(&view.adapter, VERSIONS + 1).await?;
                    versions = Some(Versions::of(&view, listed));
                    trainer = Some(view);
                }
                Err(error) => trainer_error = Some(PageError::from(ApiError::from(error)).message),
            }
        }
        metrics = recorder.update_metrics(user, POINTS).await?;
    }
    let context = json!({
        "learns": gateway.trainer.is_some(),
        "version": gateway.backend.version(user),
        "models": gateway.backend.models(),
        "every": trainer.as_ref().map(|view| time(view.every_secs)),
        "trainer": trainer,
        "versions": versions,
        "trainer_error": trainer_error,
        "charts": charts(&metrics),
        "frame": FRAME,
        "updates": updates,
        "is_first": is_first,
        "has_more": has_more,
        "proof": visitor.proof,
    });
    Page::new("Versions", "versions", &context)
}

/// Versions that were in use, newest first.
#[derive(Debug, Serialize)]
struct Versions {
    newest: Vec<VersionView>,
    /// Folded.
    older: Vec<VersionView>,
    is_complete: bool,
    /// Version 0, from before training, is listed below them.
    with_initial: bool,
}

impl Versions {
    fn of(view: &TrainerView, mut newest: Vec<VersionView>) -> Self {
        let is_complete = newest.len() <= VERSIONS as usize;
        newest.truncate(VERSIONS as usize);
        let is_initial = |version: &VersionView| version.version == 0;
        let with_initial = is_complete && view.version != 0 && !newest.iter().any(is_initial);
        let older = newest.split_off(newest.len().min(UNFOLDED));
        Self { newest, older, is_complete, with_initial }
    }
}

fn time(seconds: u32) -> String {
    match (seconds / 60, seconds % 60) {
        (minutes @ 1.., 0) => count(minutes.into(), "minute", "minutes"),
        _ => count(seconds.into(), "second", "seconds"),
    }
}
