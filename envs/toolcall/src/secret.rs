//! Secrets of tools: looked up before a run, sent to their destination, and redacted from everything that comes back.
//!
//! I1. `Debug` shows names of variables, never a value.
//! I2. Output of a tool or server, and messages about its faults, are cleaned of every secret of the task before they
//! are kept or shown. If a text was cut before that, to bound memory, what is left of a secret at the cut is removed as
//! well.

use std::collections::BTreeMap;
use std::fmt;

use clawrl_core::{Boundary, Fault, TextSource, ToolcallSpec};
use clawrl_redact::Redactor;

/// The values of environment variables that tasks name.
#[derive(Clone, Default)]
pub struct Secrets(BTreeMap<String, String>);

impl Secrets {
    /// From names of variables and their values.
    pub fn new(values: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(values.into_iter().collect())
    }

    /// A text, with its secret filled in.
    ///
    /// # Errors
    /// A permanent provider [`Fault`] when the variable is not set.
    pub(crate) fn text(&self, place: &str, source: &TextSource) -> Result<String, Fault> {
        source.text(|name| self.0.get(name).cloned()).ok_or_else(|| {
            let message = format!(
                "{place}: the environment variable {} is not set",
                source.variable().unwrap_or_default()
            );
            Fault::permanent(Boundary::Provider, "secret-missing", message)
        })
    }

    /// The secrets to redact from the texts of a task.
    pub(crate) fn of(&self, spec: &ToolcallSpec) -> Redactor {
        let named = spec.sources().filter_map(|(_, source)| source.variable());
        Redactor::for_tools(named.filter_map(|name| Some((name.to_owned(), self.0.get(name)?.clone()))))
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Secrets").field(&self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clawrl_core::{McpDecl, McpShare, McpTransport};

    use super::*;

    fn spec(names: &[&str]) -> ToolcallSpec {
        let source = |name: &&str| {
            let source = TextSource::FromEnv { name: (*name).to_owned(), prefix: "Bearer ".to_owned() };
            ((*name).to_owned(), source)
        };
        let headers = names.iter().map(source).collect();
        let server = McpDecl {
            name: "docs".to_owned(),
            transport: McpTransport::Http { url: "http://127.0.0.1/".to_owned(), headers },
            tools: None,
            prefix: String::new(),
            share: McpShare::Attempt,
            timeout: Duration::from_secs(1),
            max_calls: None,
        };
        ToolcallSpec {
            tools: Vec::new(),
            mcp: vec![server],
            workspace: None,
            observation_chars: 100,
            max_parallel_calls: 1,
            step_rewards: Vec::new(),
        }
    }

    #[test]
    fn i1_i2_secrets_are_never_shown() {
        let secrets = Secrets::new([
            ("KEY".to_owned(), "abcdefgh".to_owned()),
            ("LONG".to_owned(), "abcdefgh-and-more".to_owned()),
            ("SHORT".to_owned(), "EMPTY".to_owned()),
        ]);
        let redactor = secrets.of(&spec(&["KEY", "LONG", "SHORT"]));
        let mut text = "said abcdefgh, abcdefgh-and-more, EMPTY".to_owned();
        redactor.redact_in_place(&mut text);
        assert_eq!(text, "said [KEY], [LONG], EMPTY");
        assert_eq!(
            format!("{secrets:?} {redactor:?}"),
            r#"Secrets(["KEY", "LONG", "SHORT"]) ["KEY", "LONG"]"#
        );
        let fault = redactor.redact_fault(Fault::transient(Boundary::Env, "x", "abcdefgh"));
        assert_eq!(fault.message, "[KEY]");
        let missing = TextSource::FromEnv { name: "NONE".to_owned(), prefix: String::new() };
        let fault = secrets.text("mcp: docs: headers: A", &missing).unwrap_err();
        assert_eq!(fault.message, "mcp: docs: headers: A: the environment variable NONE is not set");
    }
}
