//! What is learned from chat, and what a user may do about it.
//!
//! I1. Whatever is done is done to the adapter that answers the user whose key it is.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::Response;
use serde_json::{Map, Value, json};

use super::completions;
use super::error::ApiError;
use super::gateway::Gateway;
use super::records::{object, only, told};
use crate::{Command, Trainer, TrainerError, UserId, VersionView};

/// Versions that are listed at most.
const VERSIONS: u32 = 200;

type Answer = Result<Response<Body>, ApiError>;

/// `GET /v1/policy`.
pub(super) async fn policy(
    State(gateway): State<Arc<Gateway>>,
    Extension(user): Extension<UserId>,
) -> Answer {
    let Some(trainer) = &gateway.trainer else {
        let version = gateway.backend.version(&user);
        return Ok(completions::json(&json!({"learning": false, "version": version, "versions": []})));
    };
    let view = trainer.view(&user).await?;
    let versions = gateway.recorder.versions(&view.adapter, VERSIONS).await.map_err(told)?;
    Ok(completions::json(&shown(&json!(view), &versions)))
}

/// `POST /v1/policy/train`: an update of what waits, now.
pub(super) async fn train(State(gateway): State<Arc<Gateway>>, Extension(user): Extension<UserId>) -> Answer {
    done(&gateway, &user, Command::Train).await
}

/// `POST /v1/policy/pause`.
pub(super) async fn pause(State(gateway): State<Arc<Gateway>>, Extension(user): Extension<UserId>) -> Answer {
    done(&gateway, &user, Command::Pause).await
}

/// `POST /v1/policy/resume`.
pub(super) async fn resume(
    State(gateway): State<Arc<Gateway>>,
    Extension(user): Extension<UserId>,
) -> Answer {
    done(&gateway, &user, Command::Resume).await
}

/// `POST /v1/policy/rollback` with `{"version": N}`.
pub(super) async fn roll_back(
    State(gateway): State<Arc<Gateway>>,
    Extension(user): Extension<UserId>,
    request: Request,
) -> Answer {
    let body: Map<String, Value> = object(&gateway, request).await?;
    only(&body, &["version"])?;
    let version = body.get("version").and_then(Value::as_u64);
    let wrong = || ApiError::field("version", "`version` is the number of a version of `GET /v1/policy`");
    done(&gateway, &user, Command::RollBack(version.ok_or_else(wrong)?)).await
}

async fn done(gateway: &Gateway, user: &UserId, command: Command) -> Answer {
    let view = trainer(gateway)?.command(user, command).await?;
    let versions = gateway.recorder.versions(&view.adapter, VERSIONS).await.map_err(told)?;
    Ok(completions::json(&shown(&json!(view), &versions)))
}

/// Who learns here.
///
/// # Errors
/// Nobody does.
pub(super) fn trainer(gateway: &Gateway) -> Result<&Arc<dyn Trainer>, ApiError> {
    let message = "nothing is learned here: the server was started so, or its policy cannot be trained";
    gateway.trainer.as_ref().ok_or_else(|| ApiError::conflict("learning_is_off", message))
}

fn shown(view: &Value, versions: &[VersionView]) -> Value {
    let mut shown = json!({"learning": true, "versions": versions});
    if let (Some(shown), Some(view)) = (shown.as_object_mut(), view.as_object()) {
        shown.extend(view.clone());
    }
    shown
}

impl From<TrainerError> for ApiError {
    fn from(error: TrainerError) -> Self {
        let message = error.to_string();
        match error {
            TrainerError::NoVersion(..) => Self::not_found("version_not_found", message),
            TrainerError::Refused(_) => Self::conflict("not_possible_now", message),
            TrainerError::Ended(why) => {
                tracing::error!("learning has ended: {why}");
                Self::unavailable("learning_has_ended", "learning has ended; the server's log says why", None)
            }
        }
    }
}
