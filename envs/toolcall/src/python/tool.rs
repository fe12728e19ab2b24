//! The tool `python`: calls to an interpreter, which is replaced if it was lost.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clawrl_core::Fault;
use clawrl_sandbox::Sandbox;

use super::interpreter::{Interpreter, RunEnd, RunOutcome, StartError};
use super::message::EpisodeConfig;
use crate::result::{CallResult, CallTimeout, Outcome};

/// Time for a new interpreter to become ready.
const START_LIMIT: Duration = Duration::from_secs(30);

const RESTARTED: &str = "[the interpreter was restarted; variables are lost]\n";
const NEXT_IS_FRESH: &str = "the next call starts a fresh one, variables are lost";

/// The interpreter of an episode.
#[derive(Debug)]
pub(crate) struct Python {
    /// Taken out while it runs code, so that one whose call was dropped is gone.
    interpreter: Option<Interpreter>,
    environment: BTreeMap<String, String>,
    seed: u64,
    /// `PYTHONHASHSEED` of programs that the code starts, if the plan does not fix it.
    hash_seed: Option<String>,
}

impl Python {
    /// Assigns an interpreter to the episode.
    pub(crate) async fn begin(
        interpreter: Interpreter,
        environment: BTreeMap<String, String>,
        seed: u64,
        hash_seed: Option<String>,
    ) -> Self {
        let mut python = Self { interpreter: None, environment, seed, hash_seed };
        python.adopt(interpreter).await;
        python
    }

    async fn adopt(&mut self, mut interpreter: Interpreter) {
        interpreter.begin(EpisodeConfig { seed: self.seed, hash_seed: self.hash_seed.as_deref() }).await;
        self.interpreter = Some(interpreter);
    }

    /// Runs code.
    ///
    /// # Errors
    /// A [`Fault`] when the machine failed.
    pub(crate) async fn call(
        &mut self,
        sandbox: &dyn Sandbox,
        code: &str,
        limit: Duration,
        deadline: Instant,
    ) -> Result<CallResult, Fault> {
        let mut before = "";
        if self.interpreter.as_ref().is_none_or(Interpreter::has_ended) {
            before = RESTARTED;
            self.interpreter = None;
            let by = deadline.min(Instant::now() + START_LIMIT);
            match Interpreter::start(sandbox, self.environment.clone(), by).await {
                Ok(interpreter) => self.adopt(interpreter).await,
                Err(StartError::Fault(fault)) => return Err(fault),
                // The agent may have used up the sandbox's resources.
                Err(StartError::Missing(reason) | StartError::Failed(reason)) => {
                    sandbox.lost().await.map_or(Ok(()), Err)?;
                    return Ok(CallResult::failed(format_args!("no interpreter could be started: {reason}")));
                }
            }
        }
        let Some(mut interpreter) = self.interpreter.take() else {
            return Ok(CallResult::failed("there is no interpreter"));
        };
        let allowance = CallTimeout::begin(limit, deadline);
        let ran = interpreter.run(code, allowance.until).await?;
        match ran.end {
            RunEnd::Replied(_) | RunEnd::Interrupted(_) => self.interpreter = Some(interpreter),
            RunEnd::Ended(_) => sandbox.lost().await.map_or(Ok(()), Err)?,
            RunEnd::Killed | RunEnd::Garbage => {}
        }
        Ok(call_result(before, ran, allowance))
    }
}

fn call_result(before: &str, ran: RunOutcome, allowance: CallTimeout) -> CallResult {
    let (output, cut) = ran.output.text();
    let mut text = format!("{before}{output}");
    let mut cuts = Vec::from_iter(cut.map(|cut| before.len() + cut));
    let outcome = match &ran.end {
        RunEnd::Replied(reply) if reply.ok => Outcome::Done,
        RunEnd::Replied(_) => Outcome::Failed,
        RunEnd::Interrupted(_) | RunEnd::Killed => Outcome::TimedOut,
        RunEnd::Ended(_) | RunEnd::Garbage => Outcome::Lost,
    };
    let is_interrupted = matches!(ran.end, RunEnd::Interrupted(_));
    match ran.end {
        RunEnd::Replied(reply) | RunEnd::Interrupted(reply) => {
            for said in [reply.result, reply.error].into_iter().flatten() {
                said.append_to(&mut text, &mut cuts);
            }
            if is_interrupted {
                text.push_str(&format!("[interrupted {}]", allowance.when()));
            }
        }
        RunEnd::Killed => {
            text.push_str(&format!("[the interpreter was killed {}; {NEXT_IS_FRESH}]", allowance.when()));
        }
        RunEnd::Ended(why) => text.push_str(&format!("[the interpreter has ended: {why}; {NEXT_IS_FRESH}]")),
        RunEnd::Garbage => {
            text.push_str(&format!("[the interpreter answered in disorder and was killed; {NEXT_IS_FRESH}]"));
        }
    }
    CallResult { outcome, text, cuts, exit_code: None }
}
