//! Imports a health check as the last command of the setup.
//!
//! Source: Harbor's `[environment.healthcheck]`, which mirrors Docker's: the check is repeated until it succeeds;
//! failures count after the start period, and too many in a row make the environment unhealthy.

use crate::document::Section;
use crate::findings::Findings;
use crate::shell_text::word;

/// A setup command, and its time limit in seconds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Healthcheck {
    pub(super) command: String,
    pub(super) seconds: f64,
}

pub(super) fn healthcheck(environment: &Section<'_>, findings: &mut Findings) -> Option<Healthcheck> {
    let section = environment.section("healthcheck");
    if !section.is_there() {
        return None;
    }
    let Some(command) = section.text("command", findings) else {
        if !section.has("command") {
            let help = "add `command = \"...\"`: it exits with 0 when the environment is ready";
            section.refuse("command", findings, "the health check has no command", help);
        }
        return None;
    };
    let mut number =
        |key: &str, default: f64| section.number(key, findings).map_or(default, |number| number.value);
    let interval = number("interval_sec", 5.0);
    let timeout = number("timeout_sec", 30.0);
    let start_period = number("start_period_sec", 0.0);
    let start_interval = number("start_interval_sec", 5.0);
    let retries = number("retries", 3.0).max(1.0).ceil();
    let script = format!(
        "began=$SECONDS; failed=0\n\
         until timeout {timeout} bash -c \"$0\" < /dev/null; do\n\
         \x20 if [ $((SECONDS - began)) -lt {start} ]; then sleep {start_interval}; continue; fi\n\
         \x20 failed=$((failed + 1))\n\
         \x20 if [ $failed -ge {retries} ]; then exit 1; fi\n\
         \x20 sleep {interval}\n\
         done",
        start = start_period.ceil(),
    );
    let command = format!("bash -c {} {}", word(&script), word(&command.value));
    let seconds = start_period + start_interval + retries * (interval + timeout);
    Some(Healthcheck { command, seconds })
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::Arc;

    use clawrl_config::{Node, NodeValue, Source};

    use super::*;
    use crate::document::Document;

    /// Runs the check in an empty folder, without pauses between tries.
    fn check(command: &str, healthy: bool, left_over: &str) {
        let number = |value: i64| Node::from(NodeValue::Integer(value));
        let table = Node::map(vec![
            ("command", command.into()),
            ("interval_sec", number(0)),
            ("timeout_sec", number(5)),
            ("retries", number(3)),
        ]);
        let source = Arc::new(Source::new("task.toml".as_ref(), "task.toml".into(), ""));
        let document = Document { source, root: Node::map(vec![("healthcheck", table)]) };
        let mut findings = Findings::default();
        let made = healthcheck(&document.section(), &mut findings).unwrap();
        findings.finish().unwrap();
        assert!(made.seconds >= 15.0);
        let place = tempfile::tempdir().unwrap();
        let status = Command::new("bash").arg("-c").arg(&made.command).current_dir(&place).status().unwrap();
        assert_eq!(status.success(), healthy, "{command}");
        assert_eq!(std::fs::read_to_string(place.path().join("tries")).unwrap(), left_over, "{command}");
    }

    #[test]
    fn healthcheck_retries_are_counted() {
        check("echo a >> tries", true, "a\n");
        check("echo a >> tries; test \"$(wc -l < tries)\" -ge 3", true, "a\na\na\n");
        check("echo a >> tries; exit 1", false, "a\na\na\n");
    }
}
