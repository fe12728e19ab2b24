//! The result of one call, and its time limit.

use std::time::{Duration, Instant};

use clawrl_redact::{Cut, Redactor};

/// The result of a call, before it is cut to the policy's budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallResult {
    pub(crate) outcome: Outcome,
    /// For the policy. May be empty.
    pub(crate) text: String,
    /// Byte offsets, ascending, at which the text was cut before secrets were redacted.
    pub(crate) cuts: Vec<usize>,
    /// Exit code of a program that ended by itself.
    pub(crate) exit_code: Option<i32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// The tool answered with an error, or could not be started.
    Failed,
    /// Not executed.
    Refused,
    /// Its time was up, and it was ended.
    TimedOut,
    /// The interpreter ended during the call.
    Lost,
}

impl Outcome {
    /// Name in the record.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::TimedOut => "timed_out",
            Self::Lost => "lost",
        }
    }
}

impl CallResult {
    pub(crate) fn done(text: impl Into<String>) -> Self {
        Self { outcome: Outcome::Done, text: text.into(), cuts: Vec::new(), exit_code: None }
    }

    pub(crate) fn failed(reason: impl std::fmt::Display) -> Self {
        Self { outcome: Outcome::Failed, ..Self::done(format!("error: {reason}")) }
    }

    pub(crate) fn refused(reason: impl std::fmt::Display) -> Self {
        Self { outcome: Outcome::Refused, ..Self::failed(reason) }
    }

    /// Redacts secrets, and what is left of one at a cut.
    pub(crate) fn redact(&mut self, redactor: &Redactor) {
        if self.cuts.is_empty() {
            redactor.redact_in_place(&mut self.text);
            return;
        }
        let mut pieces = Vec::new();
        for cut in self.cuts.drain(..).rev() {
            pieces.push(self.text.split_off(cut));
        }
        redactor.redact_cut(&mut self.text, Cut::End);
        for mut piece in pieces.into_iter().rev() {
            redactor.redact_cut(&mut piece, Cut::Both);
            self.text.push_str(&piece);
        }
    }
}

/// The time limit of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallTimeout {
    pub(crate) until: Instant,
    /// The tool's own limit, if that comes first.
    pub(crate) own: Option<Duration>,
}

impl CallTimeout {
    /// Starts now; ends at the tool's limit or the step's deadline.
    pub(crate) fn begin(limit: Duration, deadline: Instant) -> Self {
        // The runtime's clock, like the deadline's.
        match tokio::time::Instant::now().into_std().checked_add(limit).filter(|until| *until <= deadline) {
            Some(until) => Self { until, own: Some(limit) },
            None => Self { until: deadline, own: None },
        }
    }

    /// For the policy: when the call was ended. The same in every run.
    pub(crate) fn when(self) -> String {
        match self.own {
            Some(limit) => format!("after {} s", limit.as_millis() as f64 / 1000.0),
            None => "at the end of the step's time".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_at_cuts_are_redacted() {
        let redactor = Redactor::for_tools([("KEY".to_owned(), "abcd-efgh".to_owned())]);
        let check = |text: &str, cuts: &[usize], expected: &str| {
            let mut result = CallResult { cuts: cuts.to_vec(), ..CallResult::done(text) };
            result.redact(&redactor);
            assert_eq!(result.text, expected);
        };
        check("x abcd-efgh efgh abcd", &[], "x [KEY] efgh abcd");
        check("abcd-efgh abcd-e\n[cut]", &[16], "[KEY] [KEY]\n[cut]");
        check("abcd\n[cut]\n-efgh efgh abcd\n", &[4, 11], "[KEY]\n[cut]\n[KEY] efgh abcd\n");
    }
}
