//! Runs the checks, each with a provider of its own.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;

use crate::Case;
use crate::checks::{self, Checked, Subject};
use crate::custom;

/// What one check says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// `C1` and so on, as the list of this crate numbers them.
    pub number: &'static str,
    /// Name of the check.
    pub check: &'static str,
    /// What it asks for, as a sentence fragment.
    pub meaning: &'static str,
    /// What was found.
    pub finding: Finding,
    /// What it asks for and could not be asked, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_asked: Option<&'static str>,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// All is well.
    Passed,
    /// What is wrong.
    Failed(String),
    /// Why it was not asked.
    NotApplicable(&'static str),
}

/// What all checks say, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// One each.
    pub verdicts: Vec<Verdict>,
}

impl Report {
    /// Names of the checks that failed.
    #[must_use]
    pub fn failed(&self) -> Vec<&'static str> {
        let failed = |verdict: &&Verdict| matches!(verdict.finding, Finding::Failed(_));
        self.verdicts.iter().filter(failed).map(|verdict| verdict.check).collect()
    }

    /// For tests.
    ///
    /// # Panics
    /// When a check failed, with what is wrong.
    pub fn assert_conforms(&self) {
        assert!(self.failed().is_empty(), "the provider does not conform:\n{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Verdict { number, check, meaning, finding, not_asked } in &self.verdicts {
            match finding {
                Finding::Passed => writeln!(f, "pass  {number:<3} {check}: {meaning}")?,
                Finding::Failed(wrong) => {
                    // In from the margin, so that no line of it can be taken for a verdict.
                    let wrong = wrong.replace('\n', "\n          ");
                    writeln!(f, "FAIL  {number:<3} {check}: {meaning}\n          {wrong}")?
                }
                Finding::NotApplicable(why) => writeln!(f, "n/a   {number:<3} {check}: {why}")?,
            }
            if let Some(what) = not_asked {
                writeln!(f, "          not asked: {what}")?;
            }
        }
        Ok(())
    }
}

type Run = for<'a> fn(&'a Subject) -> Pin<Box<dyn Future<Output = Checked> + Send + 'a>>;

/// What a check needs of its case.
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
            Self::EndingCalls if case.ending_calls.is_none() => Some("no call is known that ends an episode"),
            Self::Determinism if !case.deterministic => {
                Some("it does not claim that the same seed and calls show the same")
            }
            _ => None,
        }
    }

    /// What is not asked of a case that can be asked the rest.
    fn left_out(self, case: &Case) -> Option<&'static str> {
        match self {
            Self::LongCalls(what) if case.long_calls.is_none() => Some(what),
            _ => None,
        }
    }
}

/// A check: its number, its name, what it asks for, what it needs, and itself.
type Check = (&'static str, &'static str, &'static str, Needs, Run);

const OF_ALL: [Check; 13] = [
    (
        "C1",
        "order",
        "lease, reset, step, grade and close work, and what lives is counted",
        Needs::Nothing,
        |s| Box::pin(checks::order(s)),
    ),
    ("C2", "close-twice", "closing twice is closing once", Needs::Nothing, |s| {
        Box::pin(checks::close_twice(s))
    }),
    ("C3", "dropped-step", "after a dropped step it can only be closed", Needs::Nothing, |s| {
        Box::pin(checks::dropped_step(s))
    }),
    ("C4", "drop-without-close", "dropped without a close it leaves nothing", Needs::Nothing, |s| {
        Box::pin(checks::drop_without_close(s))
    }),
    (
        "C5",
        "deadline",
        "a step returns by its deadline, and is graded then",
        Needs::LongCalls("a step whose time is up while it is under way: no call is known that takes long"),
        |s| Box::pin(checks::deadline(s)),
    ),
    (
        "C6",
        "cancel",
        "a cancelled step returns early",
        Needs::LongCalls("a step that would have gone on for long: no call is known that takes long"),
        |s| Box::pin(checks::cancel(s)),
    ),
    ("C7", "dropped-lease", "a dropped lease leaves nothing", Needs::Nothing, |s| {
        Box::pin(checks::dropped_lease(s))
    }),
    ("C8", "cancelled-lease", "a cancelled lease returns soon", Needs::Nothing, |s| {
        Box::pin(checks::cancelled_lease(s))
    }),
    ("C9", "shutdown", "shutting down ends everything", Needs::Nothing, |s| Box::pin(checks::shutdown(s))),
    ("C10", "deterministic", "the same seed and calls show the same", Needs::Determinism, |s| {
        Box::pin(checks::deterministic(s))
    }),
    ("C11", "neighbours", "environments do not disturb each other", Needs::Nothing, |s| {
        Box::pin(checks::neighbours(s))
    }),
    ("C12", "warm-up", "warming up leaves ready environments only", Needs::Nothing, |s| {
        Box::pin(checks::warm_up(s))
    }),
    ("C13", "ending", "an episode ends by its ending calls, and is graded", Needs::EndingCalls, |s| {
        Box::pin(checks::ending(s))
    }),
];

const OF_CUSTOM: [Check; 3] = [
    ("C14", "stray-calls", "calls that make no sense are answered by an observation", Needs::Nothing, |s| {
        Box::pin(custom::stray_calls(s))
    }),
    ("C15", "grade-at-once", "an episode without a step is graded, and does not pass", Needs::Nothing, |s| {
        Box::pin(custom::grade_at_once(s))
    }),
    ("C16", "two-sessions", "two sessions that take turns show what each shows alone", Needs::Nothing, |s| {
        Box::pin(custom::two_sessions(s))
    }),
];

/// Runs every check that all environments pass. Needs a tokio runtime with time, and real time: providers live outside the
/// process.
pub async fn check_provider(case: Case) -> Report {
    run(case, &[&OF_ALL]).await
}

/// Runs every check, with those for environments that somebody else wrote.
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
        verdicts.push(Verdict { number, check, meaning, finding, not_asked });
    }
    Report { verdicts }
}

async fn found(case: &Arc<Case>, check: Run) -> Finding {
    let subject = Subject::new(case);
    // A task of its own, so that a panic is a verdict and not the end of the others.
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
