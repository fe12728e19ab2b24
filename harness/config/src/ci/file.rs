//! The gate file exactly as written. The doc comments are the descriptions in the JSON schema, so they speak to authors of gate files.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

use crate::bounds;
use crate::file::{Located, Text, present_or_default};

/// A gate: what an agent has to keep, compared with a baseline that somebody accepted. Only what differs from the defaults is written.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "ClawRL gate file")]
pub(crate) struct CiFile {
    /// Version of this format: 1.
    #[schemars(range(min = 1, max = bounds::CI_FORMAT))]
    pub(crate) format: Located<i64>,
    /// Name of the gate; its baseline is `results/baselines/NAME.json`.
    #[schemars(regex(pattern = r"^[a-z0-9-]{1,48}$"))]
    pub(crate) gate: Text,
    /// Whose tasks are tried.
    pub(crate) suites: Located<Vec<CiSuiteFile>>,
    /// Who is judged, as `--policy` of `clawrl run` takes it: `openai:MODEL`, `remote:policy.yaml`, `oracle`. Files are relative to this
    /// one.
    pub(crate) policy: Text,
    /// Root of all seeds; the same for baseline and candidate. Default: 0.
    #[schemars(range(min = 0, max = bounds::MAX_SEED))]
    pub(crate) seed: Option<Located<i64>>,
    /// Attempts at each task; `auto` for as many as it takes to see a drop of `pass_rate` by `min_effect`. Default: 1 with
    /// `deterministic`, otherwise auto.
    pub(crate) repeats: Option<Located<RepeatsFile>>,
    /// What is compared. They share `alpha` among them; all of them have to pass.
    pub(crate) metrics: Located<Vec<MetricFile>>,
    /// Tasks that have to pass in every attempt, whatever the baseline did: ids as `--filter` takes them, `*` standing for any text.
    #[serde(default)]
    pub(crate) must_pass: Vec<Text>,
    /// Whether it also fails where single tasks broke, whatever the mean is: a task that is shown to pass less often than before, by more than the
    /// tolerance of `pass_rate`. It has a fifth of `alpha`. Default: true where a metric is about passes and the gate has at most 100 tasks,
    /// false otherwise.
    pub(crate) each_task: Option<Located<bool>>,
    /// Probability of a fail where nothing is worse than is tolerated. Default: 0.05.
    #[schemars(range(min = 0.0, max = 0.5))]
    pub(crate) alpha: Option<Located<f64>>,
    /// Probability of not passing if a metric is worse by `min_effect`. Default: 0.9.
    #[schemars(range(min = 0.5, max = 1.0))]
    pub(crate) power: Option<Located<f64>>,
    /// Number of interim analyses, the final one included; 1 for the final one only. They test the first metric that passes or fails
    /// by attempt, and may stop the run early. Default: 1.
    #[serde(alias = "looks")]
    #[schemars(range(min = 1, max = bounds::MAX_INTERIM_ANALYSES))]
    pub(crate) interim_analyses: Option<Located<i64>>,
    /// Whether the policy does the same each time: then one attempt is made at each task, and where all came out as before it passes.
    /// Default: false.
    pub(crate) deterministic: Option<Located<bool>>,
    /// How much may lack before nothing is judged. Nothing below it: the defaults.
    #[serde(default, deserialize_with = "present_or_default")]
    pub(crate) completeness: Option<CompletenessFile>,
    /// Where a run ends, whatever is shown by then. Default: nowhere.
    #[serde(default, deserialize_with = "present_or_default")]
    pub(crate) budget: Option<BudgetFile>,
}

/// One suite of tasks.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CiSuite")]
pub(crate) struct CiSuiteFile {
    /// A suite.yaml or its folder, relative to this file.
    pub(crate) path: Text,
    /// Only tasks whose id matches one of these, as `--filter` takes them: `copy-*`, `write-word#3`. Default: all.
    #[serde(default)]
    pub(crate) tasks: Vec<Text>,
    /// Part of the tasks. Default: all.
    pub(crate) split: Option<SplitFile>,
    /// At most this many tasks, spread over the families. Default: all.
    #[schemars(range(min = 1, max = bounds::MAX_INSTANCES))]
    pub(crate) limit: Option<Located<i64>>,
}

/// Part of a suite's tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum SplitFile {
    /// Every task.
    All,
    /// The part to train on.
    Train,
    /// The part held out.
    HeldOut,
}

/// What is compared, and how much worse it may be.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Metric")]
pub(crate) struct MetricFile {
    /// `pass_rate`, more is better; `pass_at_k` and `pass_hat_k`, the chance that one or all of k attempts pass; `reward`; and, less is
    /// better, `turns`, `tokens`, `cost_usd`, `latency_s` of an attempt, and `fault_rate`.
    pub(crate) metric: Located<MetricName>,
    /// Attempts of `pass_at_k` and `pass_hat_k`.
    #[schemars(range(min = 2, max = bounds::MAX_GROUP))]
    pub(crate) k: Option<Located<i64>>,
    /// How much worse it may be and nothing is wrong, in units of the metric; of shares as a share, 0.02 for two points. Default: 0.
    #[schemars(range(min = 0.0))]
    pub(crate) tolerance: Option<Located<f64>>,
    /// Smallest effect of interest, in the same units: the gate passes only if a worsening of this size is ruled out.
    #[serde(alias = "matters")]
    #[schemars(range(min = 0.0))]
    pub(crate) min_effect: Located<f64>,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum MetricName {
    PassRate,
    PassAtK,
    PassHatK,
    Reward,
    Turns,
    Tokens,
    CostUsd,
    LatencyS,
    FaultRate,
}

/// How much may lack before nothing is judged.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Completeness")]
pub(crate) struct CompletenessFile {
    /// Largest share of attempts that may end in faults, on either side. Default: 0.1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) max_fault_share: Option<Located<f64>>,
    /// Largest share of tasks that may have no graded attempt on one side. Default: 0.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) max_lost_share: Option<Located<f64>>,
}

/// Where a run ends; it is then inconclusive.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Budget")]
pub(crate) struct BudgetFile {
    /// Attempts, those that are tried again included.
    #[schemars(range(min = 1, max = bounds::MAX_SLOTS))]
    pub(crate) attempts: Option<Located<i64>>,
    /// Minutes of wall clock. What runs by then is finished.
    #[schemars(range(min = 0.0))]
    pub(crate) minutes: Option<Located<f64>>,
    /// US dollars, by the prices of the policy file.
    #[schemars(range(min = 0.0))]
    pub(crate) cost_usd: Option<Located<f64>>,
}

/// How many attempts at each task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepeatsFile {
    Count(i64),
    Auto,
}

impl<'de> Deserialize<'de> for RepeatsFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RepeatsVisitor;

        impl Visitor<'_> for RepeatsVisitor {
            type Value = RepeatsFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, or `auto`")
            }

            fn visit_i64<E>(self, count: i64) -> Result<Self::Value, E> {
                Ok(RepeatsFile::Count(count))
            }

            fn visit_u64<E>(self, count: u64) -> Result<Self::Value, E> {
                Ok(RepeatsFile::Count(i64::try_from(count).unwrap_or(i64::MAX)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                if text == "auto" {
                    return Ok(RepeatsFile::Auto);
                }
                Err(E::invalid_value(Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_any(RepeatsVisitor)
    }
}

impl JsonSchema for RepeatsFile {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Repeats".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "oneOf": [
            { "type": "integer", "minimum": 1, "maximum": bounds::MAX_REPEATS },
            { "const": "auto" }
        ] })
    }
}
