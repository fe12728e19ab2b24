//! The script by which SWE-bench tests an instance: only the part between the markers of its log.

const BEGIN: &str = ">>>>> Start Test Output";
const END: &str = ">>>>> End Test Output";

/// The contents of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Script {
    /// Variables that it sets, then the test command.
    pub(super) command: String,
    /// The folder that it enters first.
    pub(super) workdir: Option<String>,
    /// Whether it activates the environment `testbed`.
    pub(super) activates: bool,
}

/// Parses a script.
///
/// # Errors
/// There are no markers, or nothing between them.
pub(super) fn script(text: &str) -> Result<Script, String> {
    let marked = text
        .split_once(BEGIN)
        .and_then(|(before, rest)| Some((before, rest.split_once('\n')?.1.split_once(END)?.0)));
    let Some((before, between)) = marked else {
        return Err("its eval.sh does not mark the output of the tests".to_owned());
    };
    let is_said = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let before: Vec<&str> = before.lines().map(str::trim).filter(is_said).collect();
    // The line with the second marker, and the one that saves the exit code for it.
    let mut lines: Vec<&str> = between.lines().collect();
    if !between.ends_with('\n') {
        lines.pop();
    }
    let keeps_code = |line: &&&str| !line.trim_start().starts_with("SWEBENCH_TEST_EXIT_CODE=");
    let run: Vec<&str> =
        lines.iter().filter(keeps_code).copied().filter(|line| !line.trim().is_empty()).collect();
    if run.is_empty() {
        return Err("its eval.sh runs nothing between the marks of the tests".to_owned());
    }
    let exports = before.iter().filter(|line| line.starts_with("export ")).copied();
    let command: Vec<&str> = exports.chain(run).collect();
    let folder =
        before.iter().filter_map(|line| line.strip_prefix("cd ")).rfind(|path| path.starts_with('/'));
    Ok(Script {
        command: command.join("\n"),
        workdir: folder.map(|path| path.trim_end_matches('/').to_owned()),
        activates: before.iter().any(|line| line.contains("activate testbed")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<(&str, Option<&str>, bool), &str>) {
        let found = script(text);
        let expected = expected
            .map(|(command, workdir, activates)| Script {
                command: command.to_owned(),
                workdir: workdir.map(str::to_owned),
                activates,
            })
            .map_err(str::to_owned);
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn script_command_is_between_the_marks() {
        check(
            "#!/bin/bash\nset -uxo pipefail\nsource /opt/miniconda3/bin/activate\nconda activate testbed\ncd /testbed\nexport LANG=en_US.UTF-8\npip install -e .\n: '>>>>> Start Test Output'\npytest -rA t.py\nSWEBENCH_TEST_EXIT_CODE=$?\n: '>>>>> End Test Output'\ngit checkout t.py\n",
            Ok(("export LANG=en_US.UTF-8\npytest -rA t.py", Some("/testbed"), true)),
        );
        check(
            "cd /app/\necho '>>>>> Start Test Output'\ncargo build\ncargo test\necho '>>>>> End Test Output'\n",
            Ok(("cargo build\ncargo test", Some("/app"), false)),
        );
        check("pytest\n", Err("its eval.sh does not mark the output of the tests"));
        check(
            ": '>>>>> Start Test Output'\n: '>>>>> End Test Output'\n",
            Err("its eval.sh runs nothing between the marks of the tests"),
        );
    }
}
