//! Assignment of GPUs to roles: file form, checks, and plan form.
//!
//! Three roles of a training can have GPUs: learner, engine and judge. The numbers come from the train file, or from
//! the environment variables that OpenClaw-RL's scripts read: NUM_GPUS, ACTOR_GPUS, ROLLOUT_GPUS, PRM_GPUS.
//!
//! I1. GPUs are assigned from 0 on: to the learner, then the engine, then the judge. I2. A GPU has one role, unless learner and
//! engine have to share one, and then take turns. I3. Impossible settings are refused with a reason, and features that are
//! not built with their name; no setting is ignored.
//!
//! Pure: the caller passes the number of GPUs.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::Checker;
use super::file::EngineFile;
use super::plan::Device;
use crate::bounds;
use crate::file::Located;
use crate::problem::Problem;

/// GPUs, and how many of them each role gets. The variables NUM_GPUS, ACTOR_GPUS, ROLLOUT_GPUS and PRM_GPUS say the same where
/// this says nothing.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Devices")]
pub(crate) struct DevicesFile {
    /// GPUs of this training. Default: all that there are.
    #[schemars(range(min = 0, max = bounds::MAX_GPUS))]
    total: Option<Located<i64>>,
    /// GPUs of the learner. Default: 1.
    #[schemars(range(min = 0, max = bounds::MAX_GPUS))]
    learner: Option<Located<i64>>,
    /// GPUs of the engine; with 0 it computes on the processor. Default: 0.
    #[schemars(range(min = 0, max = bounds::MAX_GPUS))]
    engine: Option<Located<i64>>,
    /// GPUs of a judge of this program's own. Default: 0.
    #[schemars(range(min = 0, max = bounds::MAX_GPUS))]
    judge: Option<Located<i64>>,
}

/// A role that can have GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuRole {
    /// All of the training.
    Total,
    /// Computes updates.
    Learner,
    /// Computes replies.
    Engine,
    /// Computes verdicts.
    Judge,
}

impl GpuRole {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Total, Self::Learner, Self::Engine, Self::Judge];

    /// Key in `devices:`.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Learner => "learner",
            Self::Engine => "engine",
            Self::Judge => "judge",
        }
    }

    /// Environment variable with the same meaning.
    #[must_use]
    pub fn variable(self) -> &'static str {
        match self {
            Self::Total => "NUM_GPUS",
            Self::Learner => "ACTOR_GPUS",
            Self::Engine => "ROLLOUT_GPUS",
            Self::Judge => "PRM_GPUS",
        }
    }
}

/// Requested numbers of GPUs; `None` if not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DeviceWish {
    /// GPUs of all roles together.
    pub total: Option<u32>,
    /// GPUs of the learner.
    pub learner: Option<u32>,
    /// GPUs of the engine.
    pub engine: Option<u32>,
    /// GPUs of the judge.
    pub judge: Option<u32>,
}

impl DeviceWish {
    /// Whether no number is given.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Requested number of a role.
    #[must_use]
    pub fn of(&self, role: GpuRole) -> Option<u32> {
        match role {
            GpuRole::Total => self.total,
            GpuRole::Learner => self.learner,
            GpuRole::Engine => self.engine,
            GpuRole::Judge => self.judge,
        }
    }

    /// Mutable requested number of a role.
    pub fn of_mut(&mut self, role: GpuRole) -> &mut Option<u32> {
        match role {
            GpuRole::Total => &mut self.total,
            GpuRole::Learner => &mut self.learner,
            GpuRole::Engine => &mut self.engine,
            GpuRole::Judge => &mut self.judge,
        }
    }

    /// Numbers of the train file, completed with those of environment variables.
    ///
    /// # Errors
    /// [`DeviceError::TwoWords`] if both give a number and the numbers differ.
    pub fn or(mut self, variables: Self) -> Result<Self, DeviceError> {
        for role in GpuRole::ALL {
            match (self.of(role), variables.of(role)) {
                (Some(file), Some(variable)) if file != variable => {
                    return Err(DeviceError::TwoWords { role, file, variable });
                }
                (None, said) => *self.of_mut(role) = said,
                _ => {}
            }
        }
        Ok(self)
    }
}

/// GPUs of each role, by number; if all ranges are empty, the CPU is used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DeviceSplit {
    /// GPUs of the learner.
    pub learner: Range<u32>,
    /// GPUs of the engine.
    pub engine: Range<u32>,
    /// GPUs of the judge.
    pub judge: Range<u32>,
}

impl DeviceSplit {
    /// Whether learner and engine share a GPU and take turns.
    #[must_use]
    pub fn shares_a_gpu(&self) -> bool {
        !self.learner.is_empty() && !self.engine.is_empty() && self.learner.start == self.engine.start
    }

    /// Refuses what this program cannot do yet.
    ///
    /// # Errors
    /// [`DeviceError`], by name.
    pub fn check_built(&self) -> Result<(), DeviceError> {
        if self.learner.len() > 1 {
            return Err(DeviceError::SeveralLearners { asked: self.learner.end });
        }
        if !self.engine.is_empty() {
            return Err(DeviceError::EngineOnGpu);
        }
        Ok(())
    }
}

/// Reason for which GPUs cannot be assigned as requested.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// There is none.
    #[error("`device: cuda` needs an NVIDIA GPU, and this machine has none that can be used")]
    NoGpu,
    /// A file and a variable differ.
    #[error("`devices:` says `{}: {file}`, and {}={variable} says something else", .role.key(), .role.variable())]
    TwoWords {
        /// Role with the invalid number.
        role: GpuRole,
        /// In the train file.
        file: u32,
        /// In the environment.
        variable: u32,
    },
    /// More than this machine has.
    #[error("{asked} GPUs are asked for (`total`, NUM_GPUS), and this machine has {there}")]
    MoreThanThere {
        /// Requested number.
        asked: u32,
        /// Available number.
        there: u32,
    },
    /// More for the roles than for all.
    #[error(
        "{learner} GPUs for the learner (ACTOR_GPUS), {engine} for the engine (ROLLOUT_GPUS) and {judge} for a judge (PRM_GPUS) \
         are more than the {total} of the training (NUM_GPUS)"
    )]
    MoreThanAll {
        /// GPUs of the learner.
        learner: u32,
        /// GPUs of the engine.
        engine: u32,
        /// GPUs of the judge.
        judge: u32,
        /// GPUs of the training.
        total: u32,
    },
    /// `device: cuda` with none for the training, or none for the learner.
    #[error("`{}: 0` ({}=0) leaves the learner without a GPU, and `device: cuda` asks for one", .0.key(), .0.variable())]
    NoneForLearner(GpuRole),
    /// A judge that does not run here.
    #[error(
        "{0} GPUs are asked for a judge (`judge`, PRM_GPUS), and judges of this program are behind servers"
    )]
    NoJudgeHere(u32),
    /// Learning on several GPUs.
    #[error(
        "{asked} GPUs are asked for the learner (`learner`, ACTOR_GPUS), and it learns on one only so far"
    )]
    SeveralLearners {
        /// Requested number.
        asked: u32,
    },
    /// Acting on a GPU.
    #[error("a GPU is asked for the engine (`engine`, ROLLOUT_GPUS), and the engine has no CUDA path yet")]
    EngineOnGpu,
}

impl DeviceError {
    /// Description of the correction.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::NoGpu => {
                "write `device: cpu`, or `auto` for a GPU where there is one; `clawrl doctor` looks at everything"
            }
            Self::TwoWords { .. } => "unset the variable, or leave the key out",
            Self::MoreThanThere { .. } => "ask for fewer, or leave it out for all that there are",
            Self::MoreThanAll { .. } => {
                "give the roles fewer; on one GPU learner and engine may have it both"
            }
            Self::NoneForLearner(_) => "leave it out, or write `device: cpu`",
            Self::NoJudgeHere(_) => "leave it out; a judge's server has GPUs of its own",
            Self::SeveralLearners { .. } => "write `learner: 1`, or ACTOR_GPUS=1",
            Self::EngineOnGpu => {
                "write `engine: 0`, or ROLLOUT_GPUS=0: the engine computes on the processor beside a learner on a GPU"
            }
        }
    }
}

/// Deals the GPUs that are there.
///
/// # Errors
/// [`DeviceError`].
pub fn split_devices(device: Device, wish: DeviceWish, there: u32) -> Result<DeviceSplit, DeviceError> {
    if device == Device::Cpu {
        return Ok(DeviceSplit::default());
    }
    let total = wish.total.unwrap_or(there);
    if device == Device::Cuda && there == 0 {
        return Err(DeviceError::NoGpu);
    }
    if total > there {
        return Err(DeviceError::MoreThanThere { asked: total, there });
    }
    if let Some(asked @ 1..) = wish.judge {
        return Err(DeviceError::NoJudgeHere(asked));
    }
    let (learner, engine) = (wish.learner.unwrap_or(total.min(1)), wish.engine.unwrap_or(0));
    if device == Device::Cuda && (total == 0 || learner == 0) {
        let role = if total == 0 { GpuRole::Total } else { GpuRole::Learner };
        return Err(DeviceError::NoneForLearner(role));
    }
    if (total, learner, engine) == (1, 1, 1) {
        return Ok(DeviceSplit { learner: 0..1, engine: 0..1, judge: 0..0 });
    }
    // Each is at most `bounds::MAX_GPUS`, or a variable's, which may be anything.
    if learner.saturating_add(engine) > total {
        return Err(DeviceError::MoreThanAll { learner, engine, judge: 0, total });
    }
    Ok(DeviceSplit { learner: 0..learner, engine: learner..learner + engine, judge: 0..0 })
}

impl Checker {
    pub(super) fn devices(
        &mut self,
        file: Option<&Located<DevicesFile>>,
        engine: Option<&EngineFile>,
    ) -> DeviceWish {
        let Some(file) = file else { return DeviceWish::default() };
        let device = engine.and_then(|engine| engine.device.as_ref());
        if device.is_none_or(|device| device.value == Device::Cpu) {
            let problem = Problem::new(
                "GPUs are dealt out, and the training runs on the processor",
                "write `engine: { device: cuda }`, or `auto`, or leave `devices` out",
            );
            let reason = device.map(|device| (device.span, "on the processor"));
            self.contradiction(problem, (file.span, "of no use"), reason);
        }
        let DevicesFile { total, learner, engine, judge } = &file.value;
        let mut number = |key: &str, given: &Option<Located<i64>>| {
            given.as_ref().map(|given| self.findings.whole(key, Some(given), 0..=bounds::MAX_GPUS, 0))
        };
        DeviceWish {
            total: number("total", total),
            learner: number("learner", learner),
            engine: number("engine", engine),
            judge: number("judge", judge),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(numbers: [Option<u32>; 4]) -> DeviceWish {
        let [total, learner, engine, judge] = numbers;
        DeviceWish { total, learner, engine, judge }
    }

    #[track_caller]
    fn check(
        device: Device,
        there: u32,
        numbers: [Option<u32>; 4],
        expected: Result<(Range<u32>, Range<u32>), &str>,
    ) {
        let got = split_devices(device, wish(numbers), there);
        match (got, expected) {
            (Ok(split), Ok((learner, engine))) => {
                assert_eq!(split, DeviceSplit { learner, engine, judge: 0..0 });
            }
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{error}");
                assert!(!error.help().is_empty());
            }
            (got, expected) => panic!("{got:?}, not {expected:?}"),
        }
    }

    /// I1 and I2.
    #[test]
    fn gpus_are_dealt_from_the_first_on() {
        use Device::{Auto, Cpu, Cuda};
        let nothing = [None; 4];
        let of = |total, learner, engine| [Some(total), Some(learner), Some(engine), None];
        check(Cpu, 8, nothing, Ok((0..0, 0..0)));
        check(Auto, 0, nothing, Ok((0..0, 0..0)));
        check(Auto, 2, nothing, Ok((0..1, 1..1)));
        check(Auto, 2, [Some(0), None, None, None], Ok((0..0, 0..0)));
        check(Cuda, 1, nothing, Ok((0..1, 1..1)));
        check(Cuda, 8, of(8, 4, 4), Ok((0..4, 4..8)));
        check(Cuda, 8, of(6, 4, 2), Ok((0..4, 4..6)));
        check(Cuda, 8, [None, None, Some(2), Some(0)], Ok((0..1, 1..3)));
        // One for both.
        check(Cuda, 1, of(1, 1, 1), Ok((0..1, 0..1)));
        check(Cuda, 1, [None, None, Some(1), None], Ok((0..1, 0..1)));
        check(Cuda, 4, of(1, 1, 1), Ok((0..1, 0..1)));
    }

    /// I3.
    #[test]
    fn what_cannot_be_is_refused_in_words() {
        use Device::{Auto, Cuda};
        let check = |device, there, numbers, part| check(device, there, numbers, Err(part));
        check(Cuda, 0, [None; 4], "has none that can be used");
        check(
            Auto,
            0,
            [Some(2), None, None, None],
            "2 GPUs are asked for (`total`, NUM_GPUS), and this machine has 0",
        );
        check(Cuda, 1, [Some(8), Some(4), Some(2), Some(2)], "this machine has 1");
        check(Cuda, 8, [Some(8), Some(4), Some(5), None], "are more than the 8");
        check(Cuda, 8, [None, Some(9), None, None], "are more than the 8");
        check(Cuda, 8, [None, Some(u32::MAX), Some(2), None], "are more than the 8");
        check(Cuda, 1, [None, Some(2), Some(1), None], "are more than the 1");
        check(Cuda, 2, [None, Some(0), None, None], "`learner: 0` (ACTOR_GPUS=0)");
        check(Cuda, 2, [Some(0), None, None, None], "`total: 0` (NUM_GPUS=0)");
        check(Cuda, 8, [Some(8), Some(4), Some(2), Some(2)], "2 GPUs are asked for a judge");
    }

    #[test]
    fn what_is_not_built_is_refused_by_name() {
        let refused =
            |learner, engine| DeviceSplit { learner, engine, judge: 0..0 }.check_built().unwrap_err();
        assert_eq!(refused(0..2, 2..2), DeviceError::SeveralLearners { asked: 2 });
        assert_eq!(refused(0..1, 1..2), DeviceError::EngineOnGpu);
        let shared = DeviceSplit { learner: 0..1, engine: 0..1, judge: 0..0 };
        assert!(shared.shares_a_gpu() && shared.check_built() == Err(DeviceError::EngineOnGpu));
        assert_eq!(DeviceSplit { learner: 0..1, engine: 1..1, judge: 0..0 }.check_built(), Ok(()));
        assert!(!DeviceSplit::default().shares_a_gpu());
    }

    #[test]
    fn variables_fill_in_and_do_not_contradict() {
        let file = wish([None, Some(1), None, None]);
        let both = file.or(wish([Some(4), Some(1), Some(2), None])).unwrap();
        assert_eq!(both, wish([Some(4), Some(1), Some(2), None]));
        let error = file.or(wish([None, Some(2), None, None])).unwrap_err();
        assert_eq!(error.to_string(), "`devices:` says `learner: 1`, and ACTOR_GPUS=2 says something else");
    }
}
