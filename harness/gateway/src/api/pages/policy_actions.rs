//! Trainer commands of forms.
//!
//! I1. A command applies to the adapter that answers the visitor.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{Response, StatusCode};

use super::actions;
use super::document::{self, PageError};
use super::form::Form;
use super::login::Visitor;
use crate::Command;
use crate::api::error::ApiError;
use crate::api::gateway::Gateway;
use crate::api::learning;

/// `POST /policy/train`.
pub(super) async fn train(
    State(gateway): State<Arc<Gateway>>,
    Extension(visitor): Extension<Visitor>,
    request: Request,
) -> Response<Body> {
    done(&gateway, &visitor, request, |_| Some(Command::Train)).await
}

/// `POST /policy/pause`.
pub(super) async fn pause(
    State(gateway): State<Arc<Gateway>>,
    Extension(visitor): Extension<Visitor>,
    request: Request,
) -> Response<Body> {
    done(&gateway, &visitor, request, |_| Some(Command::Pause)).await
}

/// `POST /policy/resume`.
pub(super) async fn resume(
    State(gateway): State<Arc<Gateway>>,
    Extension(visitor): Extension<Visitor>,
    request: Request,
) -> Response<Body> {
    done(&gateway, &visitor, request, |_| Some(Command::Resume)).await
}

/// `POST /policy/rollback`.
pub(super) async fn roll_back(
    State(gateway): State<Arc<Gateway>>,
    Extension(visitor): Extension<Visitor>,
    request: Request,
) -> Response<Body> {
    done(&gateway, &visitor, request, |form| form.number("version").map(Command::RollBack)).await
}

/// `command`: the command of the form; `None` if the form is invalid.
async fn done(
    gateway: &Gateway,
    visitor: &Visitor,
    request: Request,
    command: impl FnOnce(&Form) -> Option<Command>,
) -> Response<Body> {
    let done = async {
        let form = actions::submitted(gateway, visitor, request).await?;
        let no_version =
            || PageError::new(StatusCode::BAD_REQUEST, "`version` must be the number of a version.");
        let command = command(&form).ok_or_else(no_version)?;
        learning::trainer(gateway)?.command(&visitor.user, command).await.map_err(ApiError::from)?;
        Ok(document::redirect("/versions"))
    };
    actions::page_or_error(done.await, visitor)
}
