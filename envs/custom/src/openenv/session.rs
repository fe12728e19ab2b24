//! One attempt's session with an OpenEnv server: one WebSocket, on which messages are answered in order.
//!
//! P1. A message is sent once and never again.
//! P2. Messages have no ids, so after one has timed out nothing more is sent: the next answer could be its own. Grading
//! needs no message.
//! P3. An action that the server's schema refuses becomes an observation, because the policy caused it.
//! P4. An episode with an unexpected answer is not graded: its rewards may belong to other actions.
//!
//! The score is the sum of the rewards, clamped to [0, 1]; one that was outside is flagged `reward-out-of-range`.
//!
//! Cancellation: dropping the session closes its connection, and the server ends its environment with it. Source:
//! openenv-core 0.3.0, `env_server` (messages `reset`, `step`, `close`; `observation`, `error`).

use clawrl_core::{CheckReport, Grade, RewardTotal, StepResult, StopReason, ToolCall, printable_line};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::action::{ActionStyle, act_tool, action_style, listed_tools, step};
use super::socket::{Disconnected, Socket};
use super::text::text;
use crate::http::HttpClient;
use crate::message::{self, Method, NAME, SAID, TextAnswer, ToolAnswer, shaped, shown};
use crate::observe::observation;
use crate::peer_error::PeerError;
use crate::process::too_large;

/// Tolerance for the rounding of float sums.
const ROUNDING: f64 = 1e-9;

#[derive(Debug)]
pub(crate) struct OpenenvSession {
    client: HttpClient,
    base_url: String,
    most: usize,
    score: RewardTotal,
    /// From the first message on, while no message is pending.
    socket: Option<Socket>,
    action_style: ActionStyle,
    /// Of the steps that had one.
    rewards: Vec<f64>,
}

#[derive(Debug, Deserialize)]
struct StateAnswer {
    observation: Value,
    #[serde(default)]
    reward: Option<Reward>,
    #[serde(default)]
    done: bool,
}

/// Some servers use booleans as rewards.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Reward {
    Truth(bool),
    Number(f64),
}

impl Reward {
    fn number(self) -> f64 {
        match self {
            Self::Truth(truth) => f64::from(u8::from(truth)),
            Self::Number(number) => number,
        }
    }
}

enum SocketReply {
    State(StateAnswer),
    /// It does not fit the server's schema; the server's explanation, for the policy.
    Refused(String),
}

/// A sum without rounding errors: ten times 0.1 is 1.
fn without_float_noise(sum: f64) -> f64 {
    let whole = sum.round();
    if (sum - whole).abs() < ROUNDING { whole } else { sum }
}

impl OpenenvSession {
    pub(crate) fn new(client: HttpClient, base_url: &str, most: usize, score: RewardTotal) -> Self {
        Self {
            client,
            base_url: base_url.trim_end_matches('/').to_owned(),
            most,
            score,
            socket: None,
            action_style: ActionStyle::default(),
            rewards: Vec::new(),
        }
    }

    /// Starts an episode: its first text, and its tools.
    pub(crate) async fn reset(
        &mut self,
        session: &str,
        config: &Value,
        seed: u64,
    ) -> Result<(TextAnswer, Vec<ToolAnswer>), PeerError> {
        let schema = self.action_schema().await?;
        self.action_style = action_style(&schema);
        self.connect().await?;
        let mut data = config.as_object().cloned().unwrap_or_default();
        data.entry("seed").or_insert_with(|| json!(seed));
        data.entry("episode_id").or_insert_with(|| json!(session));
        let state = self.state(&json!({ "type": "reset", "data": data }), Method::Reset).await?;
        let tools = match self.action_style {
            ActionStyle::Plain => vec![act_tool(schema)],
            ActionStyle::Tools => {
                let listed = json!({ "type": "step", "data": { "type": "list_tools" } });
                listed_tools(&self.state(&listed, Method::Reset).await?.observation)
            }
        };
        let answer = TextAnswer { text: text(&state.observation), full_text: None };
        Ok((answer, tools))
    }

    /// Performs calls one after another, until the episode is over.
    pub(crate) async fn step(&mut self, calls: &[ToolCall], budget: usize) -> Result<StepResult, PeerError> {
        let (mut texts, mut reward, mut end) = (Vec::new(), None, None);
        for call in calls {
            match self.send(&step(self.action_style, call), Method::Step).await? {
                SocketReply::Refused(why) => texts.push(format!("error: {why}")),
                SocketReply::State(state) => {
                    texts.push(text(&state.observation));
                    if let Some(of_step) = state.reward.map(Reward::number) {
                        self.rewards.push(of_step);
                        let total = reward.unwrap_or(0.0) + of_step;
                        if !total.is_finite() {
                            return Err(PeerError::protocol("the sum of a step's rewards is not finite"));
                        }
                        reward = Some(total);
                    }
                    if state.done {
                        end = Some(StopReason::Ended("done".to_owned()));
                        break;
                    }
                }
            }
        }
        let answer = TextAnswer { text: texts.join("\n"), full_text: None };
        Ok(StepResult { observation: observation(answer, budget), end, process_reward: reward })
    }

    /// The score of the rewards.
    ///
    /// # Errors
    /// [`PeerError`] for an unexpected answer (P4).
    pub(crate) fn grade(&mut self) -> Result<Grade, PeerError> {
        if self.socket.as_mut().is_some_and(Socket::has_unexpected_answer) {
            return Err(unasked("grade"));
        }
        let (what, raw) = match self.score {
            RewardTotal::Sum => ("sum", self.rewards.iter().sum()),
            RewardTotal::Last => ("last", self.rewards.last().copied().unwrap_or(0.0)),
        };
        let raw = without_float_noise(raw);
        let score = f64::clamp(raw, 0.0, 1.0);
        let message = format!("{what} of {} rewards: {raw}", self.rewards.len());
        let check = CheckReport { label: "rewards".to_owned(), score, weight: 1.0, message };
        let flags = if score == raw { Vec::new() } else { vec!["reward-out-of-range".to_owned()] };
        Ok(Grade { score, passed: score >= 1.0, checks: vec![check], flags, judge_usage: None, patch: None })
    }

    pub(crate) async fn close(&mut self) {
        if let Some(socket) = self.socket.take() {
            socket.close(json!({ "type": "close" }).to_string()).await;
        }
    }

    /// The action schema; `null` if the server does not provide it.
    async fn action_schema(&self) -> Result<Value, PeerError> {
        let url = format!("{}/schema", self.base_url);
        let answered = self.client.get(&url, self.most).await?;
        if answered.status.as_u16() == 404 {
            return Ok(Value::Null);
        }
        if !answered.status.is_success() {
            return Err(answered.refusal(&url));
        }
        let schemas: Value = message::json(&answered.body).map_err(|why| {
            PeerError::protocol(format!("{url} answered with {} ({why})", shown(&answered.body)))
        })?;
        Ok(schemas["action"].clone())
    }

    async fn connect(&mut self) -> Result<(), PeerError> {
        // The suite's check ensured that the address begins with `http`, so this one begins with `ws`.
        let url = format!("ws{}/ws", self.base_url.trim_start_matches("http"));
        let config =
            WebSocketConfig::default().max_message_size(Some(self.most)).max_frame_size(Some(self.most));
        let connection = self.client.dial(&self.base_url).await?;
        let connected = client_async_with_config(url.as_str(), connection, Some(config)).await;
        let (stream, _) = connected.map_err(|error| {
            let help = "check that the server runs, and the host and port of `base_url`";
            PeerError::transient(
                "server-unreachable",
                format!("failed to open a WebSocket at {url} ({error}): {help}"),
            )
        })?;
        self.socket = Some(Socket::new(stream));
        Ok(())
    }

    async fn state(&mut self, message: &Value, method: Method) -> Result<StateAnswer, PeerError> {
        match self.send(message, method).await? {
            SocketReply::State(state) => Ok(state),
            SocketReply::Refused(why) => {
                let why = printable_line(&why, SAID);
                Err(PeerError::permanent(
                    "env-error",
                    format!("the server refused `{}`: {why}", method.name()),
                ))
            }
        }
    }

    /// Sends a message and receives its answer.
    async fn send(&mut self, message: &Value, method: Method) -> Result<SocketReply, PeerError> {
        // Put back when the answer is there: a session that is dropped midway is not used again (P2).
        let socket = self
            .socket
            .take()
            .ok_or_else(|| PeerError::transient("connection-lost", "the session lost its connection"))?;
        let (socket, answer) =
            socket.ask(message.to_string()).await.map_err(|ended| self.lost(ended, method.name()))?;
        let reply = self.read(&answer, method)?;
        self.socket = Some(socket);
        Ok(reply)
    }

    fn read(&self, bytes: &[u8], method: Method) -> Result<SocketReply, PeerError> {
        let name = method.name();
        let answer: Value = message::json(bytes).map_err(|why| {
            PeerError::protocol(format!("instead of an answer to `{name}` came {} ({why})", shown(bytes)))
        })?;
        let data = &answer["data"];
        match answer["type"].as_str() {
            Some("observation") => {
                let state: StateAnswer = shaped(data.clone(), method)?;
                if state.reward.is_some_and(|reward| !reward.number().is_finite()) {
                    return Err(PeerError::protocol("the reward of a step is not finite"));
                }
                Ok(SocketReply::State(state))
            }
            Some("error") => self.refused(data, name),
            _ => Err(PeerError::protocol(format!("instead of an answer to `{name}` came {}", shown(bytes)))),
        }
    }

    fn refused(&self, data: &Value, method: &str) -> Result<SocketReply, PeerError> {
        let code = data["code"].as_str().unwrap_or("no code");
        let words = data["message"].as_str().unwrap_or("no message");
        let (name, said) = (printable_line(code, NAME), printable_line(words, SAID));
        let message = format!("`{method}` was answered with error {name}: {said}");
        match code {
            "VALIDATION_ERROR" => {
                let errors = data["errors"].as_array().into_iter().flatten();
                let reasons: Vec<_> = errors
                    .filter_map(|error| {
                        let place: Vec<_> = error["loc"].as_array()?.iter().map(Value::to_string).collect();
                        Some(format!("{}: {}", place.join(".").replace('"', ""), error["msg"].as_str()?))
                    })
                    .collect();
                Ok(SocketReply::Refused(if reasons.is_empty() {
                    words.to_owned()
                } else {
                    reasons.join("; ")
                }))
            }
            "CAPACITY_REACHED" | "SESSION_ERROR" => Err(PeerError::transient("env-error", message)),
            _ => Err(PeerError::permanent("env-error", message)),
        }
    }

    fn lost(&self, ended: Disconnected, method: &str) -> PeerError {
        let message = match ended {
            Disconnected::Unasked => return unasked(method),
            Disconnected::Broken(Error::Capacity(_)) => return too_large(self.most),
            Disconnected::Broken(error) => format!("lost the session's WebSocket ({error})"),
            Disconnected::Closed(frame) => {
                let said = match frame {
                    Some(frame) if frame.reason.is_empty() => format!(" (code {})", frame.code),
                    Some(frame) => format!(" (code {}: {})", frame.code, shown(frame.reason.as_bytes())),
                    None => String::new(),
                };
                format!("the server ended the session{said} before it answered `{method}`")
            }
        };
        PeerError::transient("connection-lost", message)
    }
}

fn unasked(method: &str) -> PeerError {
    PeerError::transient("answer-unasked", format!("an answer came before `{method}` was sent"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reward_sums_have_no_float_noise() {
        let check = |rewards: &[f64], expected: f64| {
            assert_eq!(without_float_noise(rewards.iter().sum()), expected, "{rewards:?}");
        };
        check(&[0.1; 10], 1.0);
        check(&[0.25, 0.5], 0.75);
        check(&[0.1, 0.2, -0.3], 0.0);
        check(&[], 0.0);
        assert!(without_float_noise(f64::INFINITY).is_infinite());
    }
}
