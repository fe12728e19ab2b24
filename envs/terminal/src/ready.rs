//! A shell at its prompt, in its sandbox.

use std::time::{Duration, Instant};

use clawrl_core::{Boundary, CloseReport, Fault, error_text};
use clawrl_sandbox::{Sandbox, Shell, ShellError, StepEnd, StepLimits, StepNote, StepOutput};
use clawrl_workspace::refuse_lost;

/// Time for a shell to set its variables.
const SETTING_LIMIT: Duration = Duration::from_secs(2);

/// A sandbox with a shell at its prompt.
pub struct ReadyTerminal {
    /// The sandbox.
    ///
    /// Declared first, so dropped first: hanging the terminal up while the sandbox lives would wake the shell for
    /// nothing.
    pub sandbox: Box<dyn Sandbox>,
    /// The shell.
    pub session: Box<dyn Shell>,
}

impl ReadyTerminal {
    /// After a step: if a new shell has started, runs `line` in it, which set the first shell's variables. Nothing of
    /// this is observed. If the line fails, the variables are missing.
    ///
    /// # Errors
    /// A transient [`Fault`]: the terminal broke.
    pub async fn set_again(
        &mut self,
        output: &StepOutput,
        line: &str,
        limits: StepLimits<'_>,
    ) -> Result<(), Fault> {
        if output.has(StepNote::NewShell) && !line.is_empty() {
            // The step may have used up its time.
            let limits =
                StepLimits { deadline: limits.deadline.max(Instant::now() + SETTING_LIMIT), ..limits };
            match self.session.run(line, limits).await {
                // The next step reports a shell that has ended again.
                Ok(_) | Err(ShellError::Gone) => {}
                Err(error) => return Err(Fault::transient(Boundary::Env, "terminal", error_text(&error))),
            }
        }
        Ok(())
    }

    /// Interprets the result of a step. The inner error is for the agent, who asked for something impossible. If the
    /// shell ended with its sandbox, which nothing inside can end, that is a fault, not the end of the episode.
    ///
    /// # Errors
    /// A [`Fault`]: the sandbox was lost, or its terminal broke.
    pub async fn settled(
        &self,
        step: Result<StepOutput, ShellError>,
    ) -> Result<Result<StepOutput, ShellError>, Fault> {
        let sandbox = self.sandbox.as_ref();
        match step {
            Ok(output) if output.end != StepEnd::ShellExited => Ok(Ok(output)),
            Err(error @ (ShellError::Command(_) | ShellError::Keys(_))) => Ok(Err(error)),
            Ok(output) => {
                refuse_lost(sandbox).await?;
                Ok(Ok(explained(output, sandbox).await))
            }
            Err(ShellError::Gone) => {
                refuse_lost(sandbox).await?;
                Ok(Ok(explained(gone(), sandbox).await))
            }
            Err(error) => {
                refuse_lost(sandbox).await?;
                Err(Fault::transient(Boundary::Env, "terminal", error_text(&error)))
            }
        }
    }

    /// Ends the terminal with its sandbox; with the recording of the session if `with_cast`.
    pub async fn close(mut self, with_cast: bool) -> CloseReport {
        let cast = if with_cast { Some(self.session.cast().await) } else { None };
        let killed = self.sandbox.kill().await;
        CloseReport { leftovers: killed.err().into_iter().map(|fault| fault.message).collect(), cast }
    }
}

/// A step that ended with the shell, with the reason if known.
async fn explained(mut output: StepOutput, sandbox: &dyn Sandbox) -> StepOutput {
    if sandbox.ran_out_of_memory().await {
        output.notes.push(StepNote::OutOfMemory);
    }
    output
}

/// The result of a step on a shell that is gone.
fn gone() -> StepOutput {
    StepOutput {
        end: StepEnd::ShellExited,
        text: String::new(),
        full_text: None,
        screen: None,
        missing: None,
        folder: None,
        duration: Duration::ZERO,
        notes: Vec::new(),
    }
}
