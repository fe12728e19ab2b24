//! Status of the trainer, and commands of users.
//!
//! I1. A command applies to the adapter that answers the key's user.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::Response;
use serde_json::{Map, Value, json};

use super::completions;
use super::error::ApiError;
use super::gateway::Gateway;
use super::records::{check_fields, object, to_api_error};
use crate::{Command, Trainer, TrainerError, TrainerView, UserId, VersionView};

/// Maximum number of listed versions.
const VERSIONS: u32 = 200;

type Answer = Result<Response<Body>, ApiError>;

/// `GET /v1/policy`.
pub(super) async fn policy(
    State(gateway): State<Arc<Gateway>>,
    Extension(user): Extension<UserId>,
) -> Answer {
    let Some(trainer) = &gateway.trainer else {
        return Ok(completions::json(&json!({
            "learning": false, "why": gateway.why_no_trainer, "version": gateway.backend.version(&user), "versions": [],
            "trouble": gateway.backend.last_error(),
        })));
    };
    let view = trainer.view(&user).await?;
    status(&gateway, &view).await
}

/// `POST /v1/policy/train`: starts an update with the waiting samples.
pub(super) async fn train(State(gateway): State<Arc<Gateway>>, Extension(user): Extension<UserId>) -> Answer {
    command(&gateway, &user, Command::Train).await
}

/// `POST /v1/policy/pause`.
pub(super) async fn pause(State(gateway): State<Arc<Gateway>>, Extension(user): Extension<UserId>) -> Answer {
    command(&gateway, &user, Command::Pause).await
}

/// `POST /v1/policy/resume`.
pub(super) async fn resume(
    State(gateway): State<Arc<Gateway>>,
    Extension(user): Extension<UserId>,
) -> Answer {
    command(&gateway, &user, Command::Resume).await
}

/// `POST /v1/policy/rollback` with `{"version": N}`.
pub(super) async fn roll_back(
    State(gateway): State<Arc<Gateway>>,
    Extension(user): Extension<UserId>,
    request: Request,
) -> Answer {
    let body: Map<String, Value> = object(&gateway, request).await?;
    check_fields(&body, &["version"])?;
    let version = body.get("version").and_then(Value::as_u64);
    let wrong =
        || ApiError::field("version", "`version` must be the number of a version of `GET /v1/policy`");
    command(&gateway, &user, Command::RollBack(version.ok_or_else(wrong)?)).await
}

async fn command(gateway: &Gateway, user: &UserId, command: Command) -> Answer {
    let view = trainer(gateway)?.command(user, command).await?;
    status(gateway, &view).await
}

/// The trainer.
///
/// # Errors
/// There is none.
pub(super) fn trainer(gateway: &Gateway) -> Result<&Arc<dyn Trainer>, ApiError> {
    let message = || format!("training is off: {}", gateway.why_no_trainer);
    gateway.trainer.as_ref().ok_or_else(|| ApiError::conflict("learning_is_off", message()))
}

async fn status(gateway: &Gateway, view: &TrainerView) -> Answer {
    let versions = gateway.recorder.versions(&view.adapter, VERSIONS).await.map_err(to_api_error)?;
    // The former version may be older than the listed ones.
    let is_cut = versions.len() >= VERSIONS as usize;
    let former = if is_cut {
        former(&gateway.recorder.versions(&view.adapter, u32::MAX).await.map_err(to_api_error)?, view.version)
    } else {
        former(&versions, view.version)
    };
    let mut shown = json!({
        "learning": true, "former": former, "versions": versions, "trouble": gateway.backend.last_error(),
    });
    if let (Some(shown), Value::Object(view)) = (shown.as_object_mut(), json!(view)) {
        shown.extend(view);
    }
    Ok(completions::json(&shown))
}

/// The version whose weights answered before those of `version`. A version that starts a branch has the weights of its parent. `None` for
/// the weights from before training.
fn former(versions: &[VersionView], version: u64) -> Option<u64> {
    let find = |number: u64| versions.iter().find(|listed| listed.version == number);
    let mut number = version;
    // A parent has a smaller number, so the loop ends.
    while let Some(listed) = find(number) {
        let parent = listed.parent.unwrap_or_default();
        let branch = find(parent).map_or(0, |parent| parent.branch);
        if listed.branch == branch {
            return Some(parent);
        }
        number = parent;
    }
    None
}

impl From<TrainerError> for ApiError {
    fn from(error: TrainerError) -> Self {
        let message = error.to_string();
        match error {
            TrainerError::NoVersion(..) => Self::not_found("version_not_found", message),
            TrainerError::Refused(_) => Self::conflict("not_possible_now", message),
            TrainerError::Ended(why) => {
                tracing::error!("the trainer has stopped: {why}");
                Self::unavailable("learning_has_ended", "the trainer has stopped; see the server's log", None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Versions as (number, parent, branch).
    fn check(versions: &[(u64, u64, u64)], version: u64, expected: Option<u64>) {
        let view = |&(version, parent, branch): &(u64, u64, u64)| VersionView {
            version,
            parent: Some(parent),
            branch,
            accepted: true,
            turns: 0,
            checkpoint: None,
            at_ms: 0,
        };
        let listed: Vec<VersionView> = versions.iter().map(view).collect();
        assert_eq!(former(&listed, version), expected, "{versions:?} {version}");
    }

    #[test]
    fn former_version_has_other_weights() {
        check(&[], 0, None);
        check(&[(1, 0, 0)], 1, Some(0));
        check(&[(2, 1, 0), (1, 0, 0)], 2, Some(1));
        // Version 3 has the weights of version 1.
        let back = [(3, 1, 1), (2, 1, 0), (1, 0, 0)];
        check(&back, 3, Some(0));
        check(&[(4, 3, 1), back[0], back[1], back[2]], 4, Some(3));
        // Version 4 has the weights of version 2, which was discarded in between.
        check(&[(4, 2, 2), back[0], back[1], back[2]], 4, Some(1));
        check(&[(2, 0, 1), (1, 0, 0)], 2, None);
        check(&[(3, 2, 2), (2, 0, 1), (1, 0, 0)], 3, None);
    }
}
