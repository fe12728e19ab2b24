//! A remote teacher: file form, checks, and plan form.
//!
//! I1. The kind of the server's log-probabilities is declared, and they are at the temperature of sampling. I2. No setting of the
//! policy file is ignored: settings that a teacher does not use are refused.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use clawrl_core::{RemoteDialect, RemoteSpec, ToolUse};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::check::Checker;
use super::distillation::Teacher;
use super::file::RlFile;
use super::plan::{Objective, RlPlan};
use crate::bounds;
use crate::file::Located;
use crate::problem::Problem;

/// Default seconds that a group waits for its teacher.
const TIMEOUT_SECS: u32 = 60;

/// Sampling at which log-probabilities from before and after temperature are the same.
const PLAIN_TEMPERATURE_MILLI: u32 = 1_000;

/// Fields of a request that are written by clawrl.
const OWN_FIELDS: [&str; 3] = ["prompt", "echo", "top_k"];

/// A word, or a map.
#[derive(Debug)]
pub(super) enum TeacherFile {
    Own(Teacher),
    Remote(RemoteTeacherFile),
}

/// A model behind a server, with the policy's tokenizer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RemoteTeacher")]
pub(super) struct RemoteTeacherFile {
    /// A policy file, relative to this file: a server that echoes prompts with their log-probabilities.
    remote: Located<String>,
    /// How long a group waits for what the teacher says, once it is whole. Then it is learned from without what is missing.
    /// Default: 60.
    #[schemars(range(min = 1, max = bounds::MAX_JUDGING_SECS))]
    timeout_secs: Option<Located<i64>>,
    /// Readings that are put to the teacher at once. Default: 32.
    #[schemars(range(min = 1, max = bounds::MAX_QUESTIONS))]
    concurrency: Option<Located<i64>>,
}

/// A model behind a server that teaches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RemoteTeacherPlan {
    /// The model.
    pub server: Box<RemoteSpec>,
    /// Seconds that a group waits for the teacher.
    pub timeout_secs: u32,
    /// Readings at once.
    pub concurrency: u32,
}

impl<'de> Deserialize<'de> for TeacherFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TeacherVisitor;

        impl<'de> Visitor<'de> for TeacherVisitor {
            type Value = TeacherFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`current`, `ema`, `frozen`, or `{ remote: teacher.yaml }`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                OwnTeacher::deserialize(StrDeserializer::new(text)).map(|own| {
                    TeacherFile::Own(match own {
                        OwnTeacher::Current => Teacher::Current,
                        OwnTeacher::Ema => Teacher::Ema,
                        OwnTeacher::Frozen => Teacher::Frozen,
                    })
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Deserialize::deserialize(MapAccessDeserializer::new(map)).map(TeacherFile::Remote)
            }
        }

        deserializer.deserialize_any(TeacherVisitor)
    }
}

/// Teachers that are here.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum OwnTeacher {
    /// Those that learn.
    Current,
    /// Those that learn, averaged over the versions.
    Ema,
    /// Those that reinforcement learning began with.
    Frozen,
}

impl JsonSchema for TeacherFile {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "TeacherChoice".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (own, remote) =
            (generator.subschema_for::<OwnTeacher>(), generator.subschema_for::<RemoteTeacherFile>());
        json_schema!({ "anyOf": [own, remote] })
    }
}

impl Checker {
    /// The teacher behind a server that is named.
    pub(super) fn remote_teacher(
        &mut self,
        folder: &Path,
        file: &Located<TeacherFile>,
    ) -> Option<RemoteTeacherPlan> {
        let TeacherFile::Remote(remote) = &file.value else { return None };
        let findings = &mut self.findings;
        let secs = 1..=bounds::MAX_JUDGING_SECS;
        let timeout_secs = findings.whole("timeout_secs", remote.timeout_secs.as_ref(), secs, TIMEOUT_SECS);
        let readings = 1..=bounds::MAX_QUESTIONS;
        let concurrency = findings.whole("concurrency", remote.concurrency.as_ref(), readings, 32);
        if let Some(reproducible) = self.reproducible {
            let message = "a training with a remote teacher cannot be reproducible";
            let problem = Problem::new(message, "leave out one of the two");
            let reason = Some((remote.remote.span, "what a server answers is up to it"));
            self.contradiction(problem, (reproducible, "asked for here"), reason);
        }
        let server = self.policy_file(folder, &remote.remote)?;
        self.teacher_speaks(&remote.remote, &server);
        Some(RemoteTeacherPlan { server, timeout_secs, concurrency })
    }

    /// I1 and I2, of the policy file.
    fn teacher_speaks(&mut self, file: &Located<String>, server: &RemoteSpec) {
        if server.dialect == RemoteDialect::Anthropic {
            let message =
                "a teacher says how probable given tokens are, which nobody can ask in the anthropic dialect";
            let help = "name a server that speaks OpenAI's completions with `echo`, such as vLLM";
            self.problem(file.span, message, "asked here", help);
            return;
        }
        if server.exact_tokens.is_none() {
            let message =
                "the policy file of the teacher does not say which log-probabilities the server gives";
            let help = "write `exact_tokens: vllm` and `sampling: { temperature: 1 }` into it, if the server is one that gives those \
                        of the model itself";
            self.problem(file.span, message, "nothing to learn from", help);
        }
        let sampling = &server.sampling;
        let given = [
            ("sampling: top_p", sampling.top_p_milli.is_some()),
            ("sampling: stop", !sampling.stop.is_empty()),
            ("sampling: seed", sampling.seed),
            ("system", server.system.is_some()),
            ("tools", server.tools != ToolUse::Auto),
            ("action_format", server.action_format.is_some()),
            ("prices", server.prices.is_some()),
        ];
        for (key, _) in given.into_iter().filter(|(_, given)| *given) {
            let message =
                format!("the policy file of the teacher has `{key}`, and a teacher writes no reply");
            self.problem(file.span, message, "named here", "leave it out there");
        }
        for key in OWN_FIELDS.into_iter().filter(|key| server.body.contains_key(*key)) {
            let message = format!(
                "the policy file of the teacher has `{key}` in its `body`, which is written by clawrl"
            );
            self.problem(file.span, message, "named here", "leave it out there");
        }
    }

    /// Checks the combination of a remote teacher with other settings.
    pub(super) fn remote_teacher_fits(&mut self, file: &RlFile, plan: &RlPlan) {
        let Some(taught) = plan.distillation.as_ref().filter(|taught| taught.remote.is_some()) else {
            return;
        };
        let Some(given) = &file.distillation else { return };
        let Some(teacher) = given.teacher.as_ref().map(|teacher| teacher.span) else { return };
        if taught.top_k.is_some() {
            let message =
                "a remote teacher is asked about sampled tokens alone, and not about candidates (`top_k`)";
            let (help, span) = match &given.top_k {
                Some(top_k) => {
                    ("leave out `top_k`, or write `teacher: frozen`, `ema` or `current`", top_k.span)
                }
                None => ("write `objective: opd`, or `teacher: frozen`, `ema` or `current`", teacher),
            };
            self.contradiction(Problem::new(message, help), (span, "asks about candidates"), None);
        }
        if plan.sampling.temperature_milli != PLAIN_TEMPERATURE_MILLI {
            let message = "servers give log-probabilities of given tokens from before temperature, so a remote teacher needs \
                           `temperature: 1` in `sampling`";
            let temperature = file.sampling.as_ref().and_then(|sampling| sampling.temperature.as_ref());
            let reason = temperature.map(|temperature| (temperature.span, "sampled at"));
            let problem = Problem::new(message, "write `temperature: 1`, or another teacher");
            self.contradiction(problem, (teacher, "this teacher"), reason);
        }
        let named_for_hints = matches!(file.objective, Some(Objective::Sdft | Objective::Sdpo));
        if named_for_hints && given.hints.is_none() {
            let message = "a remote teacher reads hints only where the file says which, and the objective is one of hints";
            let help = "write `hints: [demonstration]`, or `objective: opd` for a teacher without hints";
            self.problem(teacher, message, "reads no hint", help);
        }
        if let Some(most) = given.max_hint_tokens.as_ref().filter(|_| taught.hints.is_empty()) {
            let message = "the teacher reads no hints";
            self.problem(most.span, message, "never looked at", "leave it out, or write `hints: [sibling]`");
        }
    }
}
