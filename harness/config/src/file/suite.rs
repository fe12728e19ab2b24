//! A suite, its defaults and its tasks, as written.

use clawrl_core::ActionFormat;
use schemars::JsonSchema;
use serde::Deserialize;

use super::CheckFile;
use super::choice::{ChoiceFile, InstancesFile, NamedListFile};
use super::custom::{HttpEnvFile, InProcessFile, OpenenvFile, ProcessEnvFile};
use super::forms::words;
use super::gui::GuiFile;
use super::located::{Entries, Located, Text, present_or_default};
use super::script::ScriptFile;
use super::swe::SweFile;
use super::terminal::TerminalFile;
use super::toolcall::ToolcallFile;
use crate::bounds;

/// A ClawRL task suite.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "ClawRL suite")]
pub(crate) struct SuiteFile {
    /// Version of this format: 1.
    #[schemars(range(min = 1, max = bounds::FORMAT))]
    pub(crate) format: Located<i64>,
    /// Name of the suite: lower-case letters, digits and dashes.
    #[schemars(regex(pattern = "^[a-z0-9-]+$"))]
    pub(crate) suite: Located<String>,
    /// What it is about, for people.
    pub(crate) description: Option<String>,
    /// Named lists that templates draw from.
    #[serde(default)]
    pub(crate) vars: Entries<Located<NamedListFile>>,
    /// Settings of all tasks that do not give their own.
    #[serde(default)]
    pub(crate) defaults: DefaultsFile,
    /// The tasks, at least one.
    pub(crate) tasks: Located<Vec<TaskFile>>,
}

/// Builds a struct of its own fields and the settings that defaults and tasks share. Flattening a common
/// struct instead would lose the spans: serde buffers flattened values.
macro_rules! with_settings {
    ($(#[$meta:meta])* struct $name:ident { $($(#[$own_meta:meta])* $own:ident: $own_type:ty,)* }) => {
        $(#[$meta])*
        pub(crate) struct $name {
            $($(#[$own_meta])* pub(crate) $own: $own_type,)*
            /// Episodes of a task that share a baseline in training. `clawrl run` uses 1 unless told otherwise.
            #[schemars(range(min = 1, max = bounds::MAX_GROUP))]
            pub(crate) group_size: Option<Located<i64>>,
            /// Turns before an attempt is truncated. Default: 30.
            #[schemars(range(min = 1, max = bounds::MAX_TURNS))]
            pub(crate) max_turns: Option<Located<i64>>,
            /// How replies are read. Default: raw; hermes for tools of which none takes plain
            /// text, and for environments of your own.
            pub(crate) action_format: Option<Located<ActionFormatFile>>,
            /// From score to reward.
            pub(crate) reward: Option<RewardFile>,
            /// Waiting for an environment. Default: 120.
            #[schemars(range(min = 0.001, max = bounds::MAX_TIMEOUT_SECS))]
            pub(crate) lease_timeout_secs: Option<Located<f64>>,
            /// Files, setup commands and first observation. Default: 60.
            #[schemars(range(min = 0.001, max = bounds::MAX_TIMEOUT_SECS))]
            pub(crate) setup_timeout_secs: Option<Located<f64>>,
            /// One action in the environment. Default: 30.
            #[schemars(range(min = 0.001, max = bounds::MAX_TIMEOUT_SECS))]
            pub(crate) step_timeout_secs: Option<Located<f64>>,
            /// One reply of the policy. Default: 120.
            #[schemars(range(min = 0.001, max = bounds::MAX_TIMEOUT_SECS))]
            pub(crate) policy_timeout_secs: Option<Located<f64>>,
            /// Grading. Default: 60.
            #[schemars(range(min = 0.001, max = bounds::MAX_TIMEOUT_SECS))]
            pub(crate) grade_timeout_secs: Option<Located<f64>>,
            /// Closing the environment. Default: 30.
            #[schemars(range(min = 0.001, max = bounds::MAX_TIMEOUT_SECS))]
            pub(crate) close_timeout_secs: Option<Located<f64>>,
            /// The whole attempt, from the grant of the environment to the end of the last step. Default:
            /// 300. The defaults of setup, step and policy are never longer than this.
            #[schemars(range(min = 0.001, max = bounds::MAX_TIMEOUT_SECS))]
            pub(crate) attempt_timeout_secs: Option<Located<f64>>,
            /// The environment and its settings.
            pub(crate) env: Option<Located<EnvFile>>,
        }

        impl $name {
            /// The shared settings.
            pub(crate) fn settings(&self) -> SettingsRef<'_> {
                SettingsRef {
                    group_size: self.group_size.as_ref(),
                    max_turns: self.max_turns.as_ref(),
                    action_format: self.action_format.as_ref(),
                    reward_scale: self.reward.as_ref().and_then(|reward| reward.scale.as_ref()),
                    reward_offset: self.reward.as_ref().and_then(|reward| reward.offset.as_ref()),
                    lease: self.lease_timeout_secs.as_ref(),
                    setup: self.setup_timeout_secs.as_ref(),
                    step: self.step_timeout_secs.as_ref(),
                    policy: self.policy_timeout_secs.as_ref(),
                    grade: self.grade_timeout_secs.as_ref(),
                    close: self.close_timeout_secs.as_ref(),
                    attempt: self.attempt_timeout_secs.as_ref(),
                }
            }
        }
    };
}

/// The settings that defaults and tasks share, borrowed from either.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SettingsRef<'a> {
    pub(crate) group_size: Option<&'a Located<i64>>,
    pub(crate) max_turns: Option<&'a Located<i64>>,
    pub(crate) action_format: Option<&'a Located<ActionFormatFile>>,
    pub(crate) reward_scale: Option<&'a Located<f64>>,
    pub(crate) reward_offset: Option<&'a Located<f64>>,
    pub(crate) lease: Option<&'a Located<f64>>,
    pub(crate) setup: Option<&'a Located<f64>>,
    pub(crate) step: Option<&'a Located<f64>>,
    pub(crate) policy: Option<&'a Located<f64>>,
    pub(crate) grade: Option<&'a Located<f64>>,
    pub(crate) close: Option<&'a Located<f64>>,
    pub(crate) attempt: Option<&'a Located<f64>>,
}

impl<'a> SettingsRef<'a> {
    /// Fills missing keys from the defaults.
    pub(crate) fn or(self, below: Self) -> Self {
        Self {
            group_size: self.group_size.or(below.group_size),
            max_turns: self.max_turns.or(below.max_turns),
            action_format: self.action_format.or(below.action_format),
            reward_scale: self.reward_scale.or(below.reward_scale),
            reward_offset: self.reward_offset.or(below.reward_offset),
            lease: self.lease.or(below.lease),
            setup: self.setup.or(below.setup),
            step: self.step.or(below.step),
            policy: self.policy.or(below.policy),
            grade: self.grade.or(below.grade),
            close: self.close.or(below.close),
            attempt: self.attempt.or(below.attempt),
        }
    }
}

with_settings! {
    /// Settings of all tasks that do not give their own.
    #[derive(Debug, Default, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "Defaults")]
    struct DefaultsFile {}
}

with_settings! {
    /// One task, or a template of many.
    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "Task")]
    struct TaskFile {
        /// Name of the task, unique in the suite: lower-case letters, digits and dashes.
        #[schemars(regex(pattern = "^[a-z0-9-]+$"))]
        id: Located<String>,
        /// Variables, chosen for each instance. All strings of the task may then say `{{ name }}`.
        #[serde(default)]
        template: Entries<Located<ChoiceFile>>,
        /// Variables derived from others, in order. A string that is one `{{ expression }}` keeps the
        /// type of the expression; anything else is text.
        #[serde(default, rename = "let")]
        lets: Entries<Text>,
        /// How many tasks the template makes, or `all` for every combination. Default: `all` up to 64.
        instances: Option<Located<InstancesFile>>,
        /// What the policy is asked to do.
        instruction: Text,
        /// How success is established; the score is the weighted mean. At least one, unless a verifier or the
        /// environment itself grades.
        checks: Option<Located<Vec<Located<CheckFile>>>>,
        /// Actions that solve the task. A submit is added.
        oracle: Option<Located<ScriptFile>>,
        /// Plausible wrong action sequences, for the imperfect demonstrator.
        #[serde(default)]
        mistakes: Vec<Located<ScriptFile>>,
    }
}

words! {
    /// How replies are read.
    enum ActionFormatFile for ActionFormat {
        Raw,
        Fenced,
        ToolCalls,
        Hermes,
    }
}

/// Reward = scale * score + offset, for scores from 0 to 1.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Reward")]
pub(crate) struct RewardFile {
    /// Factor. Default: 2.
    pub(crate) scale: Option<Located<f64>>,
    /// Summand. Default: -1.
    pub(crate) offset: Option<Located<f64>>,
}

/// The environment of a task: exactly one kind.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Env")]
pub(crate) struct EnvFile {
    /// A shell on a pseudo-terminal, in a sandbox.
    #[serde(default, deserialize_with = "present_or_default")]
    pub(crate) terminal: Option<TerminalFile>,
    /// A repository with an issue, and tests that decide.
    #[serde(default, deserialize_with = "present_or_default")]
    pub(crate) swe: Option<SweFile>,
    /// Tools that are called with arguments, and an answer.
    #[serde(default, deserialize_with = "present_or_default")]
    pub(crate) toolcall: Option<ToolcallFile>,
    /// A browser, and pages.
    #[serde(default, deserialize_with = "present_or_default")]
    pub(crate) gui: Option<GuiFile>,
    /// A program of your own that answers `reset`, `step` and `grade`.
    #[serde(default, deserialize_with = "present_or_default")]
    pub(crate) process: Option<ProcessEnvFile>,
    /// A server of your own that answers the same.
    #[serde(default, deserialize_with = "present_or_default")]
    pub(crate) http: Option<HttpEnvFile>,
    /// A server of OpenEnv.
    #[serde(default, deserialize_with = "present_or_default")]
    pub(crate) openenv: Option<OpenenvFile>,
    /// A Rust type of the program that runs the suite.
    #[serde(default, deserialize_with = "present_or_default")]
    pub(crate) in_process: Option<InProcessFile>,
}

impl EnvFile {
    /// Number of environment kinds in this entry.
    pub(crate) fn kinds(&self) -> usize {
        let Self { terminal, swe, toolcall, gui, process, http, openenv, in_process } = self;
        [
            terminal.is_some(),
            swe.is_some(),
            toolcall.is_some(),
            gui.is_some(),
            process.is_some(),
            http.is_some(),
            openenv.is_some(),
            in_process.is_some(),
        ]
        .into_iter()
        .filter(|&named| named)
        .count()
    }
}
