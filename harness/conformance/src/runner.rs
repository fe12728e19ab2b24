//! Runs the checks, each with a provider of its own.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;

use crate::Case;
use crate::checks::{self, Checked, Subject};
use crate::custom;

/// Outcome of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckOutcome {
    /// `C1` and so on, as the list of this crate numbers them.
    pub number: &'static str,
    /// Name of the check.
    pub check: &'static str,
    /// The requirement, as a sentence fragment.
    pub meaning: &'static str,
    /// The finding.
    pub finding: Finding,
    /// The part of the requirement that could not be checked, and the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_asked: Option<&'static str>,
}

/// Finding of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// All is well.
    Passed,
    /// The violation.
    Failed(String),
    /// Why it was not asked.
    NotApplicable(&'static str),
}

/// Outcomes of all checks, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// One outcome per check.
    pub verdicts: Vec<CheckOutcome>,
}

impl Report {
    /// Names of the checks that failed.
    #[must_use]
    pub fn failed(&self) -> Vec<&'static str> {
        let failed = |verdict: &&CheckOutcome| matches!(verdict.finding, Finding::Failed(_));
        self.verdicts.iter().filter(failed).map(|verdict| verdict.check).collect()
    }

    /// Asserts conformance, for tests.
    ///
    /// # Panics
    /// If a check failed, with the violation.
    pub fn assert_conforms(&self) {
        assert!(self.failed().is_empty(), "the provider does not conform:\n{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for CheckOutcome { number, check, meaning, finding, not_asked } in &self.verdicts {
            match finding {
                Finding::Passed => writeln!(f, "pass  {number:<3} {check}: {meaning}")?,
                Finding::Failed(wrong) => {
                    // Indented, so that no line of the message can be taken for an outcome.
                    let wrong = wrong.replace('\n', "\n          ");
                    writeln!(f, "FAIL  {number:<3} {check}: {meaning}\n          {wrong}")?
                }
                Finding::NotApplicable(why) => writeln!(f, "n/a   {number:<3} {check}: {why}")?,
            }
            if let Some(what) = not_asked {
                writeln!(f, "          not covered: {what}")?;
            }
        }
        Ok(())
    }
}

type Run = for<'a> fn(&'a Subject) -> Pin<Box<dyn Future<Output = Checked> + Send + 'a>>;

/// Requirements of a check on its case.
#[derive(Clone, Copy)]
enum Needs {
    Nothing,
    /// Without them this is not asked.
    LongCalls(&'static str),
    EndingCalls,
    Determinism,
}

impl Needs {
    /// Why a case cannot be asked, if it cannot.
    fn missing(self, case: &Case) -> Option<&'static str> {
        match self {
            Self::EndingCalls if case.ending_calls.is_none() => Some("no call that ends an episode is known"),
            Self::Determinism if !case.deterministic => Some("it does not claim to be deterministic"),
            _ => None,
        }
    }

    /// Part of a check that a case does not support.
    fn left_out(self, case: &Case) -> Option<&'static str> {
        match self {
            Self::LongCalls(what) if case.long_calls.is_none() => Some(what),
            _ => None,
        }
    }
}

/// A check: number, name, requirement, preconditions and function.
type Check = (&'static str, &'static str, &'static str, Needs, Run);

const OF_ALL: [Check; 13] = [
    (
        "C1",
        "order",
        "lease, reset, step, grade and close work, and live environments are counted",
        Needs::Nothing,
        |s| Box::pin(checks::order(s)),
    ),
    ("C2", "close-twice", "closing twice equals closing once", Needs::Nothing, |s| {
        Box::pin(checks::close_twice(s))
    }),
    ("C3", "dropped-step", "after a dropped step only close works", Needs::Nothing, |s| {
        Box::pin(checks::dropped_step(s))
    }),
    ("C4", "drop-without-close", "dropping without close leaves nothing", Needs::Nothing, |s| {
        Box::pin(checks::drop_without_close(s))
    }),
    (
        "C5",
        "deadline",
        "a step returns by its deadline, and grading works after it",
        Needs::LongCalls("a step that exceeds its deadline while running: no long call is known"),
        |s| Box::pin(checks::deadline(s)),
    ),
    (
        "C6",
        "cancel",
        "a cancelled step returns early",
        Needs::LongCalls("a long step: no long call is known"),
        |s| Box::pin(checks::cancel(s)),
    ),
    ("C7", "dropped-lease", "a dropped lease leaves nothing", Needs::Nothing, |s| {
        Box::pin(checks::dropped_lease(s))
    }),
    ("C8", "cancelled-lease", "a cancelled lease returns soon", Needs::Nothing, |s| {
        Box::pin(checks::cancelled_lease(s))
    }),
    ("C9", "shutdown", "shutting down ends everything", Needs::Nothing, |s| Box::pin(checks::shutdown(s))),
    ("C10", "deterministic", "equal seeds and calls give equal observations", Needs::Determinism, |s| {
        Box::pin(checks::deterministic(s))
    }),
    ("C11", "neighbours", "environments do not disturb each other", Needs::Nothing, |s| {
        Box::pin(checks::neighbours(s))
    }),
    ("C12", "warm-up", "warming up leaves ready environments only", Needs::Nothing, |s| {
        Box::pin(checks::warm_up(s))
    }),
    ("C13", "ending", "the ending calls end an episode, and it is graded", Needs::EndingCalls, |s| {
        Box::pin(checks::ending(s))
    }),
];

const OF_CUSTOM: [Check; 3] = [
    ("C14", "stray-calls", "invalid calls are answered with an observation", Needs::Nothing, |s| {
        Box::pin(custom::stray_calls(s))
    }),
    ("C15", "grade-at-once", "an episode without a step is graded, and does not pass", Needs::Nothing, |s| {
        Box::pin(custom::grade_at_once(s))
    }),
    ("C16", "two-sessions", "two interleaved sessions observe the same as each alone", Needs::Nothing, |s| {
        Box::pin(custom::two_sessions(s))
    }),
];

/// Runs every check that all environments pass. Needs a tokio runtime with time, and real time: providers live outside the
/// process.
pub async fn check_provider(case: Case) -> Report {
    run(case, &[&OF_ALL]).await
}

/// Runs every check, including those for custom environments.
pub async fn check_custom(case: Case) -> Report {
    run(case, &[&OF_ALL, &OF_CUSTOM]).await
}

async fn run(case: Case, lists: &[&[Check]]) -> Report {
    let case = Arc::new(case);
    let mut verdicts = Vec::new();
    for &(number, check, meaning, needs, run) in lists.iter().copied().flatten() {
        let finding = match needs.missing(&case) {
            Some(why) => Finding::NotApplicable(why),
            None => found(&case, run).await,
        };
        let not_asked = needs.left_out(&case).filter(|_| finding == Finding::Passed);
        verdicts.push(CheckOutcome { number, check, meaning, finding, not_asked });
    }
    Report { verdicts }
}

async fn found(case: &Arc<Case>, check: Run) -> Finding {
    let subject = Subject::new(case);
    // A separate task, so that a panic fails one check and does not end the others.
    let checked = tokio::spawn(async move {
        let checked = check(&subject).await;
        let shut = tokio::time::timeout(subject.case.patience, subject.provider.shutdown()).await;
        checked?;
        shut.map_err(|_| "shutdown did not return".to_owned())?;
        match subject.provider.usage().live {
            0 => Ok(subject.not_asked.into_inner()),
            live => Err(format!("{live} live after shutdown")),
        }
    });
    match checked.await {
        Ok(Ok(None)) => Finding::Passed,
        Ok(Ok(Some(why))) => Finding::NotApplicable(why),
        Ok(Err(wrong)) => Finding::Failed(wrong),
        Err(error) => Finding::Failed(format!("panicked: {error}")),
    }
}
