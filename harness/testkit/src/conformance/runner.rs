//! Runs the checks, each with a provider of its own.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::Case;
use super::checks::{self, Checked, Subject};

/// What one check says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Name of the check.
    pub check: &'static str,
    /// What is wrong; `None` when it passed.
    pub wrong: Option<String>,
}

/// What all checks say, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// One each.
    pub verdicts: Vec<Verdict>,
}

impl Report {
    /// Names of the checks that failed.
    #[must_use]
    pub fn failed(&self) -> Vec<&'static str> {
        self.verdicts.iter().filter(|verdict| verdict.wrong.is_some()).map(|verdict| verdict.check).collect()
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
        for Verdict { check, wrong } in &self.verdicts {
            writeln!(f, "{check}: {}", wrong.as_deref().unwrap_or("ok"))?;
        }
        Ok(())
    }
}

type Check = for<'a> fn(&'a Subject) -> Pin<Box<dyn Future<Output = Checked> + Send + 'a>>;

/// Runs every check. Needs a tokio runtime with time, and real time: providers live outside the process.
pub async fn check_provider(case: Case) -> Report {
    let all: [(&'static str, Check); 13] = [
        ("order", |subject| Box::pin(checks::order(subject))),
        ("close-twice", |subject| Box::pin(checks::close_twice(subject))),
        ("dropped-step", |subject| Box::pin(checks::dropped_step(subject))),
        ("drop-without-close", |subject| Box::pin(checks::drop_without_close(subject))),
        ("deadline", |subject| Box::pin(checks::deadline(subject))),
        ("cancel", |subject| Box::pin(checks::cancel(subject))),
        ("dropped-lease", |subject| Box::pin(checks::dropped_lease(subject))),
        ("cancelled-lease", |subject| Box::pin(checks::cancelled_lease(subject))),
        ("shutdown", |subject| Box::pin(checks::shutdown(subject))),
        ("deterministic", |subject| Box::pin(checks::deterministic(subject))),
        ("neighbours", |subject| Box::pin(checks::neighbours(subject))),
        ("warm-up", |subject| Box::pin(checks::warm_up(subject))),
        ("ending", |subject| Box::pin(checks::ending(subject))),
    ];
    let case = Arc::new(case);
    let mut verdicts = Vec::new();
    for (name, check) in all {
        let subject = Subject { case: Arc::clone(&case), provider: (case.make_provider)() };
        // A task of its own, so that a panic is a verdict and not the end of the others.
        let checked = tokio::spawn(async move {
            let checked = check(&subject).await;
            let shut = tokio::time::timeout(subject.case.patience, subject.provider.shutdown()).await;
            checked?;
            shut.map_err(|_| "shutdown did not return".to_owned())?;
            match subject.provider.usage().live {
                0 => Ok(()),
                live => Err(format!("{live} live after shutdown")),
            }
        });
        let wrong = match checked.await {
            Ok(Ok(())) => None,
            Ok(Err(wrong)) => Some(wrong),
            Err(error) => Some(format!("panicked: {error}")),
        };
        verdicts.push(Verdict { check: name, wrong });
    }
    Report { verdicts }
}
