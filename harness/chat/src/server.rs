//! Requests to the server.
//!
//! Errors: [`ApiError`]. Cancellation: dropping a future closes its connection.

use clawrl_gateway::{SESSION_HEADER, TURN_HEADER};
use clawrl_remote::{ApiAnswer, ApiClient, ApiError};
use serde::Deserialize;
use serde_json::{Value, json};

/// Value of `owned_by` for models of `clawrl serve`.
const OURS: &str = "clawrl";

/// A chat server.
#[derive(Debug)]
pub(super) struct Server {
    api: ApiClient,
}

/// Models that a server lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Models {
    pub(super) names: Vec<String>,
    /// Whether the server is known not to be `clawrl serve`; it then has no record and takes no feedback.
    pub(super) is_foreign: bool,
}

/// Feedback on an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Feedback {
    pub(super) is_good: bool,
    pub(super) text: Option<String>,
}

/// State of policy and learning as reported by `clawrl serve`, limited to what the client shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct ServerState {
    pub(super) learning: bool,
    /// Reason why learning is off, if it is.
    pub(super) why: Option<String>,
    /// The version that answers.
    pub(super) version: Option<u64>,
    /// The previous version.
    pub(super) former: Option<u64>,
    pub(super) objective: Option<String>,
    pub(super) paused: Option<String>,
    pub(super) waiting: u64,
    pub(super) every_turns: u64,
    pub(super) every_secs: u64,
    pub(super) last: Option<String>,
    /// Reason why the model cannot answer.
    pub(super) trouble: Option<String>,
    /// Newest first.
    pub(super) versions: Vec<Version>,
}

/// A version of the policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Version {
    pub(super) version: u64,
    pub(super) parent: Option<u64>,
    /// Whether the version was accepted and not rolled back.
    pub(super) accepted: bool,
    /// Number of turns it was trained on; 0 for a rollback.
    pub(super) turns: u64,
}

impl Server {
    pub(super) fn new(api: ApiClient) -> Self {
        Self { api }
    }

    /// The listed models.
    pub(super) async fn models(&self) -> Result<Models, ApiError> {
        Ok(models(&self.api.get("models").await?))
    }

    /// Asks for an answer.
    pub(super) async fn ask(
        &self,
        session: &str,
        model: &str,
        messages: &[Value],
    ) -> Result<ApiAnswer, ApiError> {
        let body = json!({
            "model": model, "messages": messages, "stream": true, "stream_options": {"include_usage": true},
        });
        let headers = [(SESSION_HEADER, session), (TURN_HEADER, "main")];
        self.api.post("chat/completions", &headers, &body).await
    }

    /// Sends feedback on an answer.
    pub(super) async fn judge(&self, answer: &str, feedback: &Feedback) -> Result<(), ApiError> {
        let rating = if feedback.is_good { 1 } else { -1 };
        let mut body = json!({"completion": answer, "rating": rating});
        if let Some(text) = &feedback.text {
            body["text"] = text.as_str().into();
        }
        self.api.post("feedback", &[], &body).await.map(drop)
    }

    /// The state of policy and learning.
    pub(super) async fn standing(&self) -> Result<ServerState, ApiError> {
        standing(self.api.get("policy").await?)
    }

    /// Trains on pending feedback; resolves afterwards.
    pub(super) async fn train(&self) -> Result<ServerState, ApiError> {
        self.changed("policy/train", &json!({})).await
    }

    /// Rolls back to a version.
    pub(super) async fn roll_back(&self, version: u64) -> Result<ServerState, ApiError> {
        self.changed("policy/rollback", &json!({"version": version})).await
    }

    async fn changed(&self, route: &str, body: &Value) -> Result<ServerState, ApiError> {
        match self.api.post(route, &[], body).await? {
            ApiAnswer::Whole(value) => standing(value),
            ApiAnswer::Events(_) => Err(unknown()),
        }
    }

    /// Ends a session.
    pub(super) async fn close(&self, session: &str) -> Result<(), ApiError> {
        self.api.post("sessions/close", &[], &json!({"session": session})).await.map(drop)
    }
}

fn standing(value: Value) -> Result<ServerState, ApiError> {
    serde_json::from_value(value).map_err(|_| unknown())
}

fn unknown() -> ApiError {
    let message = "what the server says about its policy is nothing that is known here".to_owned();
    ApiError::Trouble { code: "answer-unknown", message }
}

fn models(list: &Value) -> Models {
    let entries = || list["data"].as_array().into_iter().flatten();
    let names: Vec<String> = entries().filter_map(|model| model["id"].as_str().map(str::to_owned)).collect();
    let is_foreign = !names.is_empty() && !entries().any(|model| model["owned_by"] == OURS);
    Models { names, is_foreign }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_models() {
        let check = |list: Value, names: &[&str], is_foreign| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(models(&list), Models { names, is_foreign }, "{list}");
        };
        check(json!({"data": [{"id": "a", "owned_by": "clawrl"}, {"id": "b"}]}), &["a", "b"], false);
        check(json!({"data": [{"id": "llama", "owned_by": "library"}, {}]}), &["llama"], true);
        check(json!(["a"]), &[], false);
    }
}
