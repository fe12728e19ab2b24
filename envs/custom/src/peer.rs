//! The other side of an environment, with one set of operations for all kinds.
//!
//! Cancellation: after the future of an operation was dropped, the peer can only be closed.

use std::time::{Duration, Instant};

use clawrl_core::{Grade, Observation, StepResult, TaskSpec, ToolCall};
use serde::Serialize;
use serde_json::Value;
use tokio::time::timeout_at;

use crate::grading::{end, grade};
use crate::http::HttpSession;
use crate::message::{
    CloseParams, GradeAnswer, GradeParams, Method, PROTOCOL, ResetAnswer, ResetParams, StepAnswer,
    StepParams, TaskParams, TextAnswer, ToolAnswer, request, same_version, shaped,
};
use crate::observe::observation;
use crate::openenv::OpenenvSession;
use crate::peer_error::PeerError;
use crate::process::ReadyProgram;
use crate::tools::{ToolOffer, offer};

/// Time for a peer to confirm that it has closed a session. It is closed anyway.
const CLOSING: Duration = Duration::from_secs(1);

/// JSON readers of other languages preserve integers up to here.
const SEED_MASK: u64 = (1 << 53) - 1;

pub(crate) enum Peer {
    Process(Box<ReadyProgram>),
    Http(Box<HttpSession>),
    Openenv(Box<OpenenvSession>),
}

/// Parameters of an episode's start.
pub(crate) struct EpisodeStart<'a> {
    pub(crate) session: &'a str,
    pub(crate) task: &'a TaskSpec,
    pub(crate) config: &'a Value,
    pub(crate) seed: u64,
    pub(crate) budget: usize,
}

pub(crate) struct StartedEpisode {
    /// Includes the offered tools.
    pub(crate) observation: Observation,
    /// Whether `submit` is the environment's own tool.
    pub(crate) own_submit: bool,
}

pub(crate) struct StepOutcome {
    pub(crate) result: StepResult,
    /// Whether `submit` is the environment's own tool from now on; `None` if the tools are unchanged.
    pub(crate) own_submit: Option<bool>,
}

impl Peer {
    pub(crate) async fn reset(
        &mut self,
        opening: &EpisodeStart<'_>,
        until: Instant,
    ) -> Result<StartedEpisode, PeerError> {
        if let Self::Openenv(session) = self {
            let reset = session.reset(opening.session, opening.config, opening.seed & SEED_MASK);
            let (text, tools) = timeout_at(until.into(), reset).await.unwrap_or(Err(PeerError::Late))?;
            return begun(text, tools, opening.budget);
        }
        let params = ResetParams {
            protocol: PROTOCOL,
            session: opening.session,
            task: TaskParams {
                id: &opening.task.id.0,
                instruction: &opening.task.instruction,
                config: opening.config,
            },
            seed: opening.seed & SEED_MASK,
        };
        let result = self.ask(Method::Reset, &params, until).await?;
        same_version(&result)?;
        let answer: ResetAnswer = shaped(result, Method::Reset)?;
        begun(answer.observation, answer.tools, opening.budget)
    }

    pub(crate) async fn step(
        &mut self,
        session: &str,
        seq: u32,
        calls: &[ToolCall],
        budget: usize,
        until: Instant,
    ) -> Result<StepOutcome, PeerError> {
        if let Self::Openenv(session) = self {
            let step = timeout_at(until.into(), session.step(calls, budget)).await;
            return step
                .unwrap_or(Err(PeerError::Late))
                .map(|result| StepOutcome { result, own_submit: None });
        }
        let params = StepParams { session, seq, calls: calls.iter().map(Into::into).collect() };
        let result = self.ask(Method::Step, &params, until).await?;
        let answer: StepAnswer = shaped(result, Method::Step)?;
        if answer.reward.is_some_and(|reward| !reward.is_finite()) {
            return Err(PeerError::protocol("the reward of a step is not finite"));
        }
        let mut observation = observation(answer.observation, budget);
        let mut own_submit = None;
        if !answer.tools.is_empty() {
            let offer = offer(answer.tools)?;
            observation.tools = offer.tools;
            own_submit = Some(offer.own_submit);
        }
        let result = StepResult { observation, end: end(answer.done), process_reward: answer.reward };
        Ok(StepOutcome { result, own_submit })
    }

    pub(crate) async fn grade(
        &mut self,
        session: &str,
        answer: Option<&str>,
        until: Instant,
    ) -> Result<Grade, PeerError> {
        if let Self::Openenv(session) = self {
            return session.grade();
        }
        let result = self.ask(Method::Grade, &GradeParams { session, answer }, until).await?;
        let answer: GradeAnswer = shaped(result, Method::Grade)?;
        grade(answer)
    }

    /// Reports that a session is over. The result does not matter.
    pub(crate) async fn close(&mut self, session: &str) {
        let until = Instant::now() + CLOSING;
        if let Self::Openenv(session) = self {
            let _ = timeout_at(until.into(), session.close()).await;
            return;
        }
        let _ = self.ask(Method::Close, &CloseParams { session }, until).await;
    }

    pub(crate) fn last_words(&mut self) -> Option<String> {
        match self {
            Self::Process(place) => Some(place.talk.last_words()),
            Self::Http(_) | Self::Openenv(_) => None,
        }
    }

    async fn ask(
        &mut self,
        method: Method,
        params: &impl Serialize,
        until: Instant,
    ) -> Result<Value, PeerError> {
        match self {
            Self::Process(place) => {
                let text = request(place.talk.next_id(), method, params);
                place.talk.ask(text, method, until).await
            }
            Self::Http(session) => {
                let text = request(session.next_id(), method, params);
                let asked = timeout_at(until.into(), session.ask(text, method)).await;
                asked.unwrap_or(Err(PeerError::Late))
            }
            // Its protocol differs; every operation above has handled it.
            Self::Openenv(_) => Err(PeerError::protocol("OpenEnv servers do not support this method")),
        }
    }
}

fn begun(text: TextAnswer, tools: Vec<ToolAnswer>, budget: usize) -> Result<StartedEpisode, PeerError> {
    let ToolOffer { tools, own_submit } = offer(tools)?;
    Ok(StartedEpisode { observation: Observation { tools, ..observation(text, budget) }, own_submit })
}
