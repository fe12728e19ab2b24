//! One user and one arm: consecutive sessions, and the user's messages in them.
//!
//! I1. Questions, draws and seeds of the sampling depend only on seed, persona, session and turn, and are the same in every arm.
//! I2. Learning equals that of `clawrl serve`: same judge, samples and acceptance bounds. A sign of a collapse is counted, but
//! learning continues, as if a user resumed it: a preference about length is such a sign by itself. I3. Sessions continue after
//! the first three consecutive ones that satisfy, the same number in every arm, so that later points of a curve do not cover only
//! the slower users.
//!
//! Cancellation: none; a case takes seconds.

use std::path::PathBuf;
use std::sync::Arc;

use clawrl_core::{FinishReason, Judge, SplitMix64, derive_seed};
use clawrl_gateway::{RequestId, SampleId, TakenSample, TurnId, UserId, VersionSegment};
use clawrl_torch::{AdapterName, EngineError, GenerateRequest, MarkupTokens};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::super::chat::{AdapterTrainer, Learned, Model, UpdateOutcome};
use super::arm::{Arm, Tuning, plan};
use super::measure::{HeldOut, measure};
use super::start::prompt;
use super::style::{TEMPERATURE, is_wanted};
use super::taught::message;
use super::user::{Persona, Said, memory, says};
use super::world::{Item, Part};
use clawrl_runtime::training::TrainError;
use clawrl_serve::{asked_of, worth};

/// Maximum tokens of a reply; the longest correct one has about 60.
pub(super) const MAX_TOKENS: u32 = 80;
/// Consecutive satisfying first replies that count as adaptation.
const IN_A_ROW: u32 = 3;

/// Settings that all cases share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Protocol {
    /// Sessions of a user. Users who never adapt are censored at this value.
    pub(super) sessions: u32,
    /// Maximum replies of a session.
    pub(super) turns: u32,
    /// Complaints about style that state the preference, percent.
    pub(super) wanted_percent: u8,
    /// Number of held-out questions at the end.
    pub(super) held_out: u32,
}

/// One user and one arm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Case {
    pub(super) seed: u64,
    pub(super) persona: Persona,
    pub(super) arm: Arm,
    pub(super) tuning: Tuning,
}

/// The result of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Course {
    pub(super) seed: u64,
    pub(super) persona: Persona,
    pub(super) arm: Arm,
    /// The third consecutive session whose first reply satisfied, from 1; `None` if there was none.
    pub(super) adapted_at: Option<u32>,
    /// Whether the first reply of each session was compliant.
    pub(super) first: Vec<bool>,
    /// Total number of replies.
    pub(super) replies: u32,
    pub(super) updates: u32,
    pub(super) rejected: u32,
    /// Signs of a collapse. `clawrl serve` pauses at each until a user resumes; here learning resumes at once.
    pub(super) alarms: u32,
    /// Why learning was paused before the end.
    pub(super) paused: Option<String>,
    /// Tokens that the memory added to prompts, and prompts that it was in.
    pub(super) memory_tokens: u64,
    pub(super) remembered: u32,
    pub(super) held_out: HeldOut,
}

/// Resources that cases share.
pub(super) struct CourseContext {
    pub(super) model: Model,
    pub(super) runtime: Handle,
    pub(super) judge: Arc<dyn Judge>,
    pub(super) protocol: Protocol,
    /// Folder of the adapters' checkpoints.
    pub(super) folder: PathBuf,
}

impl CourseContext {
    /// Runs a case from its first session to the final questions.
    ///
    /// # Errors
    /// The learner or the sampler failed, or the disk cannot be written.
    pub(super) fn follow(&self, case: Case) -> Result<Course, TrainError> {
        let Case { seed, persona, arm, .. } = case;
        let mut learning = Learning::begin(self, case)?;
        let mut course = Course {
            seed,
            persona,
            arm,
            adapted_at: None,
            first: Vec::new(),
            replies: 0,
            updates: 0,
            rejected: 0,
            alarms: 0,
            paused: None,
            memory_tokens: 0,
            remembered: 0,
            held_out: HeldOut::default(),
        };
        let (mut remembered, mut in_a_row) = (None, 0);
        for session in 0..self.protocol.sessions {
            let is_pleased = self.session(case, session, &mut remembered, &mut learning, &mut course)?;
            in_a_row = if is_pleased { in_a_row + 1 } else { 0 };
            if in_a_row >= IN_A_ROW {
                course.adapted_at.get_or_insert(session + 1);
            }
        }
        let adapter = learning.as_ref().and_then(|learning| learning.answers());
        course.held_out = measure(self, case, adapter, remembered)?;
        if let Some(Learning { adapter_trainer, paused, .. }) = learning {
            self.model.engine.remove_adapter(&adapter_trainer.name);
            course.paused = paused;
        }
        Ok(course)
    }

    /// Runs one session. Returns whether its first reply satisfied.
    fn session(
        &self,
        case: Case,
        session: u32,
        remembered: &mut Option<&'static str>,
        learning: &mut Option<Learning<'_>>,
        course: &mut Course,
    ) -> Result<bool, TrainError> {
        let Case { seed, persona, arm, .. } = case;
        let at = |turn: u32| [persona as u64, u64::from(session), u64::from(turn)];
        let item = Item::draw(&mut SplitMix64::new(derive_seed(seed, "question", &at(0))), Part::Train);
        let mut messages: Vec<Value> =
            remembered.iter().map(|said| message("system", &memory(said))).collect();
        let memory_tokens = match remembered {
            Some(_) => self.tokens(&messages)?,
            None => 0,
        };
        messages.push(message("user", &item.ask));
        let mut is_pleased = false;
        for turn in 0..self.protocol.turns {
            let adapter = learning.as_ref().and_then(Learning::answers);
            let answer = self.answer(&messages, adapter, derive_seed(seed, "sampling", &at(turn)))?;
            let mut random = SplitMix64::new(derive_seed(seed, "user", &at(turn)));
            let said = says(persona, &item, &answer.text, self.protocol.wanted_percent, &mut random);
            course.replies += 1;
            course.memory_tokens += memory_tokens;
            course.remembered += u32::from(memory_tokens > 0);
            if turn == 0 {
                course.first.push(is_wanted(persona, &answer.text));
                is_pleased = said == Said::Thanks;
            }
            let reply = message("assistant", &answer.text);
            if let Some(learning) = learning {
                learning.hear(&messages, answer, said, course)?;
            }
            if let (Arm::Memory, Said::Wanted(wording)) = (arm, said) {
                *remembered = Some(wording);
            }
            if said == Said::Thanks {
                break;
            }
            messages.push(reply);
            messages.push(message("user", &said.text()));
        }
        Ok(is_pleased)
    }

    /// Number of tokens of messages, without the marker that opens a reply.
    fn tokens(&self, messages: &[Value]) -> Result<u64, TrainError> {
        Ok(self.prompt(messages)?.len().saturating_sub(1) as u64)
    }

    pub(super) fn prompt(&self, messages: &[Value]) -> Result<Vec<u32>, TrainError> {
        prompt(&self.model.chat, messages).map_err(TrainError::internal)
    }

    fn answer(
        &self,
        messages: &[Value],
        adapter: Option<AdapterName>,
        seed: u64,
    ) -> Result<Answer, TrainError> {
        let prompt = self.prompt(messages)?;
        let request = self.request(prompt.clone(), adapter.clone(), seed);
        let said =
            self.runtime.block_on(self.model.engine.generate(request)).map_err(|error| broken(&error))?;
        let text = self.text(&said.ids)?;
        let is_cut = said.finish == FinishReason::Length;
        let versions =
            said.versions.iter().map(|&(first, version)| VersionSegment { first: first as usize, version });
        let (versions, logprobs, sampled) = (versions.collect(), said.logprobs, said.ids);
        Ok(Answer { prompt, sampled, logprobs, versions, text, is_cut, adapter })
    }

    pub(super) fn request(
        &self,
        prompt: Vec<u32>,
        adapter: Option<AdapterName>,
        seed: u64,
    ) -> GenerateRequest {
        GenerateRequest {
            prompt: prompt.into(),
            max_new_tokens: MAX_TOKENS,
            temperature: TEMPERATURE,
            top_p: 1.0,
            top_k: 0,
            seed,
            stop_ids: self.model.chat.stop_ids().to_vec(),
            adapter,
        }
    }

    pub(super) fn text(&self, ids: &[u32]) -> Result<String, TrainError> {
        let tokenizer = self.model.chat.tokenizer();
        tokenizer
            .decode(ids, MarkupTokens::Skip)
            .map_err(|error| TrainError::internal(format!("a reply cannot be read: {error}")))
    }
}

/// A sampled reply.
struct Answer {
    prompt: Vec<u32>,
    sampled: Vec<u32>,
    logprobs: Vec<f32>,
    versions: Vec<VersionSegment>,
    text: String,
    is_cut: bool,
    /// The adapter that answered.
    adapter: Option<AdapterName>,
}

/// The adapter of a case that learns.
struct Learning<'a> {
    context: &'a CourseContext,
    adapter_trainer: AdapterTrainer,
    waiting: Vec<TakenSample>,
    every: usize,
    /// Consecutive versions that were rejected.
    failures: u32,
    rejected_in_a_row: u32,
    paused: Option<String>,
    user: UserId,
    samples: u64,
}

impl<'a> Learning<'a> {
    fn begin(context: &'a CourseContext, case: Case) -> Result<Option<Self>, TrainError> {
        let Some(plan) = plan(case.arm, case.tuning) else { return Ok(None) };
        let name = format!("{}-{}-{}", case.seed, case.persona.name(), case.arm.name());
        let adapter_trainer =
            AdapterTrainer::begin(&context.model, &plan, &name, &context.folder.join(&name))?;
        Ok(Some(Self {
            context,
            adapter_trainer,
            waiting: Vec::new(),
            every: plan.train_every_turns as usize,
            failures: plan.failures,
            rejected_in_a_row: 0,
            paused: None,
            user: UserId(name),
            samples: 0,
        }))
    }

    /// The adapter that answers; `None`, the policy itself, before the first update.
    fn answers(&self) -> Option<AdapterName> {
        (self.adapter_trainer.version() > 0).then(|| self.adapter_trainer.name.clone())
    }

    /// Uses a user's message as feedback on a turn, and learns when enough turns wait.
    fn hear(
        &mut self,
        messages: &[Value],
        answer: Answer,
        said: Said,
        course: &mut Course,
    ) -> Result<(), TrainError> {
        let next = (clawrl_core::Role::User, said.text());
        let judge = &self.context.judge;
        let judged = self.context.runtime.block_on(asked_of(judge, &answer.text, &next));
        let worth = worth(&[], &judged, Some(&next));
        let Some((reward, _)) = worth.reward else { return Ok(()) };
        self.samples += 1;
        let request = RequestId(self.samples);
        self.waiting.push(TakenSample {
            sample: SampleId(self.samples),
            turn: TurnId(request),
            request,
            choice: 0,
            reward,
            hint: worth.hint,
            prompt_ids: answer.prompt,
            sampled_ids: answer.sampled,
            logprobs: answer.logprobs,
            versions: answer.versions,
            user: self.user.clone(),
            body: json!({"messages": messages}).to_string(),
            temperature: f64::from(TEMPERATURE),
            is_cut: answer.is_cut,
            adapter: answer.adapter.as_deref().map(str::to_owned),
        });
        if self.paused.is_some() || self.waiting.len() < self.every {
            return Ok(());
        }
        let taken: Vec<TakenSample> = self.waiting.drain(..self.every).collect();
        let Learned { outcome, collapse, .. } =
            self.adapter_trainer.learn(&self.context.model.chat, &taken, |name| name.is_none())?;
        match outcome {
            UpdateOutcome::Nothing => {}
            UpdateOutcome::Accepted { .. } => {
                self.adapter_trainer.publish()?;
                course.updates += 1;
                self.rejected_in_a_row = 0;
            }
            UpdateOutcome::Rejected { why } => {
                course.rejected += 1;
                self.rejected_in_a_row += 1;
                self.paused = (self.rejected_in_a_row >= self.failures).then_some(why);
            }
        }
        course.alarms += u32::from(collapse.is_some());
        Ok(())
    }
}

/// The error of a failed sampler.
pub(super) fn broken(error: &EngineError) -> TrainError {
    TrainError::internal(format!("the policy does not answer: {error}"))
}
