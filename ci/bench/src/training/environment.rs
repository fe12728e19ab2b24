//! Environments in this process: they take some time for a step, and their reward is the share of vowels in the reply.
//!
//! Latencies are heavy-tailed: a Pareto distribution with exponent 1.5, whose mean is three times its least value, cut
//! at 40 times the least. Builds, downloads and test suites of agents' environments look like that: most steps are
//! short, some take many times as long. The latency of a step is a function of the slot's seed and the step, so that
//! all schedules are given the same environments.

use std::time::Duration;

use clawrl_core::{
    BoxFuture, CheckReport, CloseReport, Env, EnvProvider, Fault, Grade, LeaseRequest, Observation,
    ProviderUsage, SplitMix64, StepCtx, StepResult, StopReason, ToolCall, ToolSpec, derive_seed,
};

const EXPONENT: f64 = 1.5;
const LONGEST: f64 = 40.0;

/// A heavy-tailed distribution of times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Latency {
    /// The least time.
    pub(crate) least: Duration,
}

impl Latency {
    /// The time of a step.
    fn draw(self, seed: u64, step: u32) -> Duration {
        let uniform = SplitMix64::new(derive_seed(seed, "latency", &[u64::from(step)])).unit_f64();
        // In (0, 1], which has an inverse.
        self.least.mul_f64((1.0 - uniform).powf(-1.0 / EXPONENT).min(LONGEST))
    }
}

/// Leases environments of so many turns.
#[derive(Debug)]
pub(super) struct SlowProvider {
    pub(super) turns: u32,
    pub(super) latency: Option<Latency>,
}

impl EnvProvider for SlowProvider {
    fn lease(&self, request: LeaseRequest) -> BoxFuture<'_, Result<Box<dyn Env>, Fault>> {
        let Self { turns, latency } = *self;
        Box::pin(async move {
            let env: Box<dyn Env> =
                Box::new(SlowEnv { seed: request.seed, turns, latency, taken: 0, written: String::new() });
            Ok(env)
        })
    }

    fn usage(&self) -> ProviderUsage {
        ProviderUsage::default()
    }

    fn warm_up(&self, _count: u32) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async { Ok(()) })
    }

    fn shutdown(&self) -> BoxFuture<'_, CloseReport> {
        Box::pin(async { CloseReport::default() })
    }
}

#[derive(Debug)]
struct SlowEnv {
    seed: u64,
    turns: u32,
    latency: Option<Latency>,
    taken: u32,
    written: String,
}

impl Env for SlowEnv {
    fn reset(&mut self, _ctx: StepCtx) -> BoxFuture<'_, Result<Observation, Fault>> {
        let write = ToolSpec {
            name: "write".to_owned(),
            description: String::new(),
            parameters: serde_json::json!({ "type": "object" }),
            text_argument: Some("text".to_owned()),
        };
        Box::pin(async { Ok(Observation { tools: vec![write], ..Observation::default() }) })
    }

    fn step<'a>(
        &'a mut self,
        calls: &'a [ToolCall],
        _ctx: StepCtx,
    ) -> BoxFuture<'a, Result<StepResult, Fault>> {
        Box::pin(async move {
            if let Some(latency) = self.latency {
                // timer: the latency itself, which is what the area is about.
                tokio::time::sleep(latency.draw(self.seed, self.taken)).await;
            }
            self.taken += 1;
            for call in calls {
                self.written.push_str(call.arguments["text"].as_str().unwrap_or_default());
            }
            let end = (self.taken >= self.turns).then_some(StopReason::Submitted);
            Ok(StepResult { observation: Observation::from_text("go on"), end, process_reward: None })
        })
    }

    fn grade(&mut self, _ctx: StepCtx) -> BoxFuture<'_, Result<Grade, Fault>> {
        let score = vowels(&self.written);
        Box::pin(async move {
            let check =
                CheckReport { label: "vowels".to_owned(), score, weight: 1.0, message: String::new() };
            Ok(Grade::from_checks(vec![check], Vec::new()))
        })
    }

    fn close(&mut self) -> BoxFuture<'_, CloseReport> {
        Box::pin(async { CloseReport::default() })
    }
}

/// Share of a text that is vowels; of no text, 0.
fn vowels(text: &str) -> f64 {
    let count = text.chars().filter(|letter| "aeiou".contains(*letter)).count();
    count as f64 / text.chars().count().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reward_is_a_share() {
        let check = |text: &str, expected: f64| assert_eq!(vowels(text), expected, "{text:?}");
        check("", 0.0);
        check("bcd", 0.0);
        check("bada", 0.5);
    }

    #[test]
    fn latencies_have_a_heavy_tail() {
        let latency = Latency { least: Duration::from_millis(10) };
        let mut drawn: Vec<f64> = (0..20_000).map(|seed| latency.draw(seed, 0).as_secs_f64() * 1e3).collect();
        drawn.sort_by(f64::total_cmp);
        assert!(drawn[0] >= 10.0 && drawn[drawn.len() - 1] <= 400.0);
        // Half of them are below 10 * 2^(2/3), one of a hundred above 10 * 100^(2/3).
        assert!((drawn[10_000] - 15.9).abs() < 0.5, "{}", drawn[10_000]);
        assert!((drawn[19_800] - 215.0).abs() < 25.0, "{}", drawn[19_800]);
        assert_eq!(latency.draw(7, 1), latency.draw(7, 1));
    }
}
