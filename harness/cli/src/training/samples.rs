//! From recorded attempts to what is learned from.
//!
//! I1. The context trained on is the context acted on: it is computed again from the trajectory by the scheduler's own
//! function. I2. An attempt that cannot be read so teaches nothing, and says why.

use std::borrow::Cow;

use clawrl_config::Reward;
use clawrl_core::{AttemptRecord, Outcome, SampledTokens, TaskSpec, Trajectory, Turn};
use clawrl_learn::{MemberResult, Segment};
use clawrl_scheduler::context;
use clawrl_torch::{Chat, SampledTurn, demonstrated_tokens, segments, written_turn};

/// The result of the attempt that closed its slot, for the stream of groups.
///
/// # Errors
/// What is wrong with the recorded tokens.
pub(super) fn member_result(
    chat: &Chat,
    record: &AttemptRecord,
    reward: Reward,
    temperature: f32,
) -> Result<MemberResult, String> {
    let (grade, mapped) = match &record.outcome {
        Outcome::Finished { grade, reward, .. } => (grade, *reward),
        Outcome::Faulted(_) => return Ok(MemberResult::Faulted),
        Outcome::Cancelled(_) => return Ok(MemberResult::Cancelled),
    };
    let trajectory = &record.trajectory;
    let mut turns = Vec::with_capacity(trajectory.turns.len());
    for (index, turn) in trajectory.turns.iter().enumerate() {
        let tokens = turn.tokens.as_ref().ok_or("a turn has no recorded tokens")?;
        turns.push(SampledTurn {
            messages: Cow::Owned(context(&trajectory.prompt, &trajectory.turns[..index])),
            tools: &[],
            tokens: Cow::Borrowed(tokens),
        });
    }
    let segments = segments(chat, turns, temperature).map_err(|error| error.to_string())?;
    let reward = match reward {
        Reward::Passed => f64::from(u8::from(grade.passed)),
        Reward::Score => mapped,
    };
    Ok(MemberResult::Finished { reward, passed: grade.passed, segments })
}

/// What a demonstration of this task shows.
///
/// # Errors
/// A call that the task's action format has no text for.
pub(super) fn demonstrated(
    chat: &Chat,
    task: &TaskSpec,
    trajectory: &Trajectory,
) -> Result<Vec<Segment>, String> {
    let written: Result<Vec<Turn>, _> = trajectory
        .turns
        .iter()
        .map(|turn| written_turn(turn, task.action_format, &trajectory.reset.tools))
        .collect();
    let written = written.map_err(|error| error.to_string())?;
    let mut turns = Vec::with_capacity(written.len());
    for (index, turn) in written.iter().enumerate() {
        let tokens: SampledTokens =
            demonstrated_tokens(chat, &turn.reply.joined_text()).map_err(|error| error.to_string())?;
        turns.push(SampledTurn {
            messages: Cow::Owned(context(&trajectory.prompt, &written[..index])),
            tools: &[],
            tokens: Cow::Owned(tokens),
        });
    }
    segments(chat, turns, 1.0).map_err(|error| error.to_string())
}
