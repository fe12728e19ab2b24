//! I1 under everything at once: faults, panics, hangs, slow and endless operations, cancellations, drains.

use std::time::Duration;

use clawrl_core::{EnvProvider, ResolvedLimits, SplitMix64};
use clawrl_scheduler::{Demand, GroupDemand, Interrupt, RunEnd, RunError};
use clawrl_testkit::{MishapRates, PlanShape, Reply, ScriptedPolicy, SuiteShape};
use proptest::prelude::*;

use crate::stage::Stage;

/// A run whose sites go wrong at this rate, interrupted or not.
#[derive(Debug, Clone)]
struct Chaos {
    seed: u64,
    env_percent: u64,
    policy_percent: u64,
    harness_faults: bool,
    concurrency: u32,
    tasks: (u32, u32),
    max_retries: u32,
    max_faults: Option<u32>,
    interrupts: Vec<(u64, Interrupt)>,
    /// Delays in seconds, each with the demand after it; then the demand is closed. `None` for everything at once.
    demands: Option<Vec<(u64, u32)>>,
}

fn chaos() -> impl Strategy<Value = Chaos> {
    let interrupt = prop_oneof![Just(Interrupt::Drain), Just(Interrupt::CancelAll)];
    let sizes = (1u32..20, (1u32..12, 0u32..12), 0u32..3, proptest::option::of(1u32..8));
    let rates = (any::<u64>(), 0u64..40, 0u64..20, prop::bool::weighted(0.1));
    let interrupts = proptest::collection::vec((0u64..200, interrupt), 0..3);
    let demands = proptest::option::of(proptest::collection::vec((0u64..100, 0u32..30), 0..5));
    (sizes, rates, interrupts, demands).prop_map(
        |((concurrency, tasks, max_retries, max_faults), rates, interrupts, demands)| {
            let (seed, env_percent, policy_percent, harness_faults) = rates;
            Chaos {
                seed,
                env_percent,
                policy_percent,
                harness_faults,
                concurrency,
                tasks,
                max_retries,
                max_faults,
                interrupts,
                demands,
            }
        },
    )
}

impl Chaos {
    fn stage(&self) -> Stage {
        let mut shape = PlanShape::flat(self.tasks.0, self.concurrency);
        shape.suites.push(SuiteShape { weight: 3, tasks: self.tasks.1 });
        shape.group_size = 2;
        shape.limits = ResolvedLimits {
            concurrency: self.concurrency,
            prewarm: 1,
            max_retries: self.max_retries,
            max_faults: self.max_faults,
        };
        let rates = MishapRates { any_percent: self.env_percent, harness_faults: self.harness_faults };
        let seed = self.seed;
        let mut stage = Stage::new(&shape, move |attempt| rates.script(seed, attempt));
        let percent = self.policy_percent;
        stage.policy = std::sync::Arc::new(ScriptedPolicy::new(move |request| {
            let mut stream = SplitMix64::new(request.seed ^ u64::from(request.attempt.number));
            match stream.below(100) {
                draw if draw < percent => match stream.below(4) {
                    0 => Reply::Panic,
                    1 => Reply::Hang,
                    2 => Reply::text(""),
                    _ => Reply::Fault(clawrl_core::Fault::transient(
                        clawrl_core::Boundary::Policy,
                        "scripted",
                        "as the script says",
                    )),
                },
                _ if request.turn < 4 => Reply::run("true"),
                _ => Reply::submit(),
            }
        }));
        stage
    }

    async fn check(&self) -> Result<(), TestCaseError> {
        let mut stage = self.stage();
        stage.demand = self.demands.as_ref().map(|_| tokio::sync::watch::Sender::new(Demand::default()));
        let consumer = async {
            let Some(sender) = &stage.demand else { return std::future::pending().await };
            for &(seconds, groups) in self.demands.iter().flatten() {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                sender.send_replace(Demand { groups: GroupDemand::First(groups), closed: false });
            }
            tokio::time::sleep(Duration::from_secs(20)).await;
            sender.send_modify(|demand| demand.closed = true);
            std::future::pending::<()>().await;
        };
        let person = async {
            for &(seconds, interrupt) in &self.interrupts {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                stage.interrupt.send_replace(interrupt);
            }
            std::future::pending::<()>().await;
        };
        let ended = tokio::select! {
            ended = stage.run() => ended,
            () = person => unreachable!("a person is never done"),
            () = consumer => unreachable!("a consumer is never done"),
        };
        let report = match ended {
            Ok(report) => report,
            Err(RunError::Harness { report, .. }) if self.harness_faults => *report,
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        stage.check_invariants(&report).map_err(TestCaseError::fail)?;
        prop_assert!(stage.sink.unresolved().is_empty(), "unresolved {:?}", stage.sink.unresolved());
        prop_assert_eq!(stage.sink.leases().len(), report.attempts as usize);
        prop_assert_eq!(stage.sink.records().len(), report.attempts as usize);
        prop_assert_eq!(
            report.end == RunEnd::Completed,
            report.left_open.is_empty()
                && !matches!(report.end, RunEnd::TooManyFaults | RunEnd::HarnessFault)
        );
        prop_assert_eq!(report.lost_executors, 0);
        prop_assert!(stage.provider.usage().peak <= self.concurrency);
        let most_wanted = match &self.demands {
            None => u32::MAX,
            Some(demands) => demands.iter().map(|&(_, groups)| groups).max().unwrap_or(0),
        };
        let too_early = stage.sink.leases().iter().any(|lease| lease.attempt.slot.0 / 2 >= most_wanted);
        prop_assert!(!too_early, "a slot of a group that was not in demand ran");
        prop_assert!(report.end != RunEnd::DemandClosed || self.demands.is_some());
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_attempt_resolves_exactly_once(chaos in chaos()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(chaos.check())?;
    }
}

/// The same with real threads and thousands of attempts: orders that one thread never shows.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_threads() {
    let mut shape = PlanShape::flat(1_500, 300);
    shape.limits.max_retries = 2;
    let mishaps = [
        clawrl_testkit::Mishap::Fault(clawrl_core::Retry::Sound),
        clawrl_testkit::Mishap::Panic,
        clawrl_testkit::Mishap::Fault(clawrl_core::Retry::Never),
    ];
    let sites = [
        clawrl_testkit::Site::Lease,
        clawrl_testkit::Site::Reset,
        clawrl_testkit::Site::Step(2),
        clawrl_testkit::Site::Grade,
    ];
    std::panic::set_hook(Box::new(|_| {}));
    let stage = Stage::new(&shape, move |attempt| {
        let draw = (attempt.slot.0 + attempt.number) as usize;
        if draw.is_multiple_of(5) { vec![(sites[draw % 4], mishaps[draw % 3])] } else { Vec::new() }
    });
    let report = stage.run().await.unwrap();
    let _ = std::panic::take_hook();
    stage.check_invariants(&report).unwrap();
    assert_eq!((report.end, report.closed), (RunEnd::Completed, 1_500));
    assert!(report.retries > 100 && report.faulted > 50, "{report:?}");
}
