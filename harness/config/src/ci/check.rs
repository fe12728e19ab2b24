//! Checks a gate file and converts it to a plan.
//!
//! I1. One pass finds all mistakes. I2. No setting is ignored: a setting without effect is refused.
//!
//! Errors: [`ConfigError`], each problem with its span. Reads the gate file and checks that its suites exist; nothing to cancel.

use std::path::{Path, PathBuf};

use clawrl_core::Split;

use super::file::{
    BudgetFile, CiFile, CiSuiteFile, CompletenessFile, MetricFile, MetricName, RepeatsFile, SplitFile,
};
use super::plan::{CiBudget, CiCompleteness, CiMetric, CiPlan, CiSuite, MetricKind, Repeats};
use crate::bounds;
use crate::dialect;
use crate::file::{Located, Text};
use crate::numbers::Reals;
use crate::parse::parse;
use crate::problem::{ConfigError, Finding, Findings, Problem};
use crate::read::{read, suite_file};
use crate::resolve::TaskChoice;
use crate::source::Span;
use crate::value;

const ALPHA: Reals = Reals { accepts: |alpha| alpha > 0.0 && alpha < 0.5, words: "between 0 and 0.5" };
const POWER: Reals = Reals { accepts: |power| power > 0.5 && power < 1.0, words: "between 0.5 and 1" };
const SHARE: Reals = Reals { accepts: |share| (0.0..1.0).contains(&share), words: "from 0 to below 1" };
const ABOVE_0: Reals = Reals { accepts: |number| number > 0.0, words: "above 0" };
const AT_LEAST_0: Reals = Reals { accepts: |number| number >= 0.0, words: "of 0 or more" };

/// Reads and checks a gate file.
///
/// # Errors
/// A file that cannot be read or has the wrong shape is one problem; otherwise every problem that there is.
pub fn load_ci(path: &Path) -> Result<CiPlan, ConfigError> {
    let source = read(path, &dialect::CI)?;
    let file: CiFile = parse(&source, &dialect::CI)?;
    let mut checker = Checker { findings: Findings::new(&source) };
    let folder = path.parent().unwrap_or(Path::new(""));
    let plan = checker.plan(path, folder, file);
    checker.findings.finish()?;
    Ok(plan)
}

struct Checker {
    findings: Findings,
}

impl Checker {
    fn problem(&mut self, span: Span, message: impl Into<String>, label: &str, help: impl Into<String>) {
        self.findings.add(span, Finding { message: message.into(), label, help: help.into() });
    }

    fn plan(&mut self, path: &Path, folder: &Path, file: CiFile) -> CiPlan {
        if *file.format < 1 {
            let help = format!("write `format: {}`", bounds::CI_FORMAT);
            self.problem(file.format.span, "there is no such format", "not a format", help);
        }
        if let Err(bad) = value::gate_name(&file.gate) {
            self.problem(file.gate.span, bad.message, "this name", bad.help);
        }
        if file.policy.trim().is_empty() {
            let help = "write it as `--policy` of `clawrl run` takes it, such as `policy: openai:gpt-5`";
            self.problem(file.policy.span, "nobody is judged", "empty", help);
        }
        let suites = self.suites(folder, &file.suites);
        let metrics = self.metrics(&file.metrics);
        let deterministic = file.deterministic.as_ref().filter(|deterministic| deterministic.value);
        let repeats = self.repeats(file.repeats.as_ref(), deterministic, &metrics, &file.metrics);
        let interim_analyses = self.interim_analyses(file.interim_analyses.as_ref(), deterministic, &metrics);
        let findings = &mut self.findings;
        CiPlan {
            gate: file.gate.value,
            file: path.to_owned(),
            suites,
            policy: file.policy.value.trim().to_owned(),
            seed: findings.seed(file.seed.as_ref()),
            repeats,
            metrics,
            must_pass: self.patterns("must_pass", &file.must_pass),
            each_task: file.each_task.map(|each_task| each_task.value),
            alpha: self.findings.real("alpha", file.alpha.as_ref(), &ALPHA, 0.05),
            power: self.findings.real("power", file.power.as_ref(), &POWER, 0.9),
            interim_analyses,
            deterministic: deterministic.is_some(),
            completeness: self.completeness(&file.completeness.unwrap_or_default()),
            budget: self.budget(&file.budget.unwrap_or_default()),
        }
    }

    fn suites(&mut self, folder: &Path, files: &Located<Vec<CiSuiteFile>>) -> Vec<CiSuite> {
        if files.is_empty() {
            let help = "name at least one: `suites: [{ path: ../../tasks/terminal-basics }]`";
            self.problem(files.span, "there is no suite to try", "no suites here", help);
        }
        let mut suites: Vec<(CiSuite, Span)> = Vec::new();
        for file in &files.value {
            let limit = file.limit.as_ref();
            let limit =
                limit.map(|given| self.findings.whole("limit", Some(given), 1..=bounds::MAX_INSTANCES, 1));
            let choice = TaskChoice {
                split: match file.split {
                    Some(SplitFile::Train) => Split::Train,
                    Some(SplitFile::HeldOut) => Split::HeldOut,
                    Some(SplitFile::All) | None => Split::All,
                },
                filter: self.patterns("tasks", &file.tasks),
                limit,
            };
            let named: PathBuf = folder.join(&file.path.value);
            let path = match suite_file(&named) {
                Ok(path) => path,
                Err(problem) => {
                    let problem = problem.at(&self.findings.source, file.path.span, "named here");
                    self.findings.push(problem);
                    continue;
                }
            };
            if let Some((_, first)) = suites.iter().find(|(suite, _)| suite.path == path) {
                let problem =
                    Problem::new("the same suite is given twice", "name it once, with all of its `tasks`")
                        .at(&self.findings.source, file.path.span, "the second one")
                        .and_at(*first, "the first one");
                self.findings.push(problem);
            }
            suites.push((CiSuite { path, choice }, file.path.span));
        }
        suites.into_iter().map(|(suite, _)| suite).collect()
    }

    fn patterns(&mut self, key: &str, patterns: &[Text]) -> Vec<String> {
        for (at, pattern) in patterns.iter().enumerate() {
            if pattern.trim().is_empty() {
                let help = "write the id of a task, `*` standing for any text: `copy-*`";
                self.problem(pattern.span, format!("an entry of `{key}` is empty"), "no task", help);
            } else if patterns[..at].iter().any(|earlier| earlier.value == pattern.value) {
                let message = format!("`{key}` has `{}` twice", pattern.value);
                self.problem(pattern.span, message, "the second one", "write it once");
            }
        }
        patterns.iter().map(|pattern| pattern.value.clone()).collect()
    }

    fn metrics(&mut self, files: &Located<Vec<MetricFile>>) -> Vec<CiMetric> {
        if files.is_empty() {
            let help = "say what has to be kept: `metrics: [{ metric: pass_rate, min_effect: 0.1 }]`";
            self.problem(files.span, "the gate compares nothing", "no metrics here", help);
        }
        let mut metrics: Vec<(CiMetric, Span)> = Vec::new();
        for file in &files.value {
            let metric = self.metric(file);
            if let Some((_, first)) = metrics.iter().find(|(earlier, _)| earlier.kind == metric.kind) {
                let message = format!("the metric `{}` is given twice", metric.kind.name());
                let problem = Problem::new(message, "keep one of the two")
                    .at(&self.findings.source, file.metric.span, "the second one")
                    .and_at(*first, "the first one");
                self.findings.push(problem);
            }
            metrics.push((metric, file.metric.span));
        }
        metrics.into_iter().map(|(metric, _)| metric).collect()
    }

    fn metric(&mut self, file: &MetricFile) -> CiMetric {
        let kind = self.kind(file);
        let tolerance = self.findings.real("tolerance", file.tolerance.as_ref(), &AT_LEAST_0, 0.0);
        let min_effect = self.findings.real("min_effect", Some(&file.min_effect), &ABOVE_0, tolerance + 0.1);
        if min_effect <= tolerance {
            let message = format!(
                "`min_effect` of `{}` is {min_effect}, and its tolerance is {tolerance}",
                kind.name()
            );
            let help = "write a larger `min_effect`: a gate may pass or fail a worsening between the two";
            self.problem(file.min_effect.span, message, "not above the tolerance", help);
        }
        if kind.is_share() && min_effect > 1.0 {
            let message = format!("`{}` cannot be worse by {min_effect}", kind.name());
            let help =
                format!("it is a share: write `min_effect: {}` for {min_effect} points", min_effect / 100.0);
            self.problem(file.min_effect.span, message, "more than all", help);
        }
        CiMetric { kind, tolerance, min_effect }
    }

    fn kind(&mut self, file: &MetricFile) -> MetricKind {
        let plain = match file.metric.value {
            MetricName::PassAtK | MetricName::PassHatK => None,
            MetricName::PassRate => Some(MetricKind::PassRate),
            MetricName::Reward => Some(MetricKind::Reward),
            MetricName::Turns => Some(MetricKind::Turns),
            MetricName::Tokens => Some(MetricKind::Tokens),
            MetricName::CostUsd => Some(MetricKind::CostUsd),
            MetricName::LatencyS => Some(MetricKind::LatencyS),
            MetricName::FaultRate => Some(MetricKind::FaultRate),
        };
        if let Some(kind) = plain {
            if let Some(k) = &file.k {
                let message = format!("`{}` has no `k`", kind.name());
                self.problem(k.span, message, "never looked at", "leave it out");
            }
            return kind;
        }
        if file.k.is_none() {
            let help = "say of how many attempts: `k: 4`";
            self.problem(file.metric.span, "the key `k` is missing", "this needs `k`", help);
        }
        let k = self.findings.whole("k", file.k.as_ref(), 2..=bounds::MAX_GROUP, 2);
        if file.metric.value == MetricName::PassAtK {
            MetricKind::PassAtK(k)
        } else {
            MetricKind::PassHatK(k)
        }
    }

    fn repeats(
        &mut self,
        file: Option<&Located<RepeatsFile>>,
        deterministic: Option<&Located<bool>>,
        metrics: &[CiMetric],
        metric_files: &Located<Vec<MetricFile>>,
    ) -> Repeats {
        let repeats = match file.map(|file| (file.value, file.span)) {
            Some((RepeatsFile::Count(value), span)) => {
                let number = Located { value, span };
                Repeats::Exactly(self.findings.whole("repeats", Some(&number), 1..=bounds::MAX_REPEATS, 1))
            }
            None if deterministic.is_some() => Repeats::Exactly(1),
            Some((RepeatsFile::Auto, _)) | None => Repeats::Auto,
        };
        let place = file.map_or(metric_files.span, |file| file.span);
        if repeats == Repeats::Auto && !metrics.iter().any(|metric| metric.kind == MetricKind::PassRate) {
            let message =
                "how many attempts it takes is planned by `pass_rate`, which is no metric of this gate";
            self.problem(place, message, "not by these", "write how many, such as `repeats: 8`");
        }
        if let (Some(deterministic), Some(file)) = (deterministic, file)
            && repeats != Repeats::Exactly(1)
        {
            let message = "a policy that does the same each time is tried once";
            let problem = Problem::new(message, "leave `repeats` out, or `deterministic`")
                .at(&self.findings.source, file.span, "more than once")
                .and_at(deterministic.span, "said here");
            self.findings.push(problem);
        }
        let Repeats::Exactly(count) = repeats else { return repeats };
        for (metric, file) in metrics.iter().zip(&metric_files.value) {
            if metric.kind.fewest_attempts() > count {
                let message = format!("`{}` takes more attempts than are made", metric.kind.name());
                let help = format!("write `k: {}` or less, or more `repeats`", count.max(2));
                let span = file.k.as_ref().map_or(file.metric.span, |k| k.span);
                self.problem(span, message, &format!("of {count}"), help);
            }
        }
        repeats
    }

    fn interim_analyses(
        &mut self,
        file: Option<&Located<i64>>,
        deterministic: Option<&Located<bool>>,
        metrics: &[CiMetric],
    ) -> u32 {
        let count = self.findings.whole("interim_analyses", file, 1..=bounds::MAX_INTERIM_ANALYSES, 1);
        let Some(file) = file.filter(|_| count > 1) else { return count };
        if let Some(deterministic) = deterministic {
            let message = "a deterministic policy gets one attempt per task, so there is nothing to analyse before the end";
            let problem = Problem::new(message, "remove `interim_analyses` or `deterministic`")
                .at(&self.findings.source, file.span, "more than one")
                .and_at(deterministic.span, "said here");
            self.findings.push(problem);
        } else if !metrics.iter().any(|metric| metric.kind.is_pass_fail()) {
            let message =
                "interim analyses need a metric that passes or fails by attempt, and this gate has none";
            let help = "add `pass_rate` or `fault_rate` to the metrics, or remove `interim_analyses`";
            self.problem(file.span, message, "at none", help);
        }
        count
    }

    fn completeness(&mut self, file: &CompletenessFile) -> CiCompleteness {
        let mut share = |key, given: &Option<Located<f64>>, default| {
            self.findings.real(key, given.as_ref(), &SHARE, default)
        };
        CiCompleteness {
            max_fault_share: share("max_fault_share", &file.max_fault_share, 0.1),
            max_lost_share: share("max_lost_share", &file.max_lost_share, 0.0),
        }
    }

    fn budget(&mut self, file: &BudgetFile) -> CiBudget {
        let findings = &mut self.findings;
        // Every plan has fewer slots than this.
        let most = bounds::MAX_SLOTS as i64;
        let attempts = file.attempts.as_ref();
        CiBudget {
            attempts: attempts.map(|given| findings.whole("attempts", Some(given), 1..=most, 1)),
            minutes: file.minutes.as_ref().map(|given| findings.real("minutes", Some(given), &ABOVE_0, 60.0)),
            cost_usd: file
                .cost_usd
                .as_ref()
                .map(|given| findings.real("cost_usd", Some(given), &ABOVE_0, 5.0)),
        }
    }
}
