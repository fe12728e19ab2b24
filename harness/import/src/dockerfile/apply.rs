//! Turns instructions into a sandbox: files of the workspace, setup commands, variables.
//!
//! The unpacked root file system is read-only and the workspace is one of its folders. So a sandbox cannot have what a
//! Dockerfile changes outside of that folder, nor build steps that need root or a network.
//!
//! I1. Everything that is not refused has the same effect in the workspace as in a build. I2. Files are copied before
//! the first setup command, so a COPY after a RUN is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use clawrl_config::{Source, Span};

use super::copy::{Copied, Destination, absolute, copied, join};
use super::lines::{Instruction, instructions};
use super::needs::{Need, need};
use super::starts::{StartRules, refuse_starts};
use super::steps::{CopiedFile, Run, refused_by_add, setup_command};
use super::words::{expand, json_list, pairs, split};
use crate::draft::FixtureSource;
use crate::findings::Findings;
use crate::shell_text::word;
use crate::tree::{Tree, TreeFile};

/// The surroundings of a Dockerfile.
#[derive(Debug)]
pub(crate) struct Base<'a> {
    /// Files of the build folder, without ignored files and files that the agent must not see.
    pub(crate) tree: &'a Tree,
    /// The workspace, if the task itself names it.
    pub(crate) workdir: Option<&'a str>,
    pub(crate) starts: StartRules,
}

/// A sandbox that replaces an image.
#[derive(Debug, Default)]
pub(crate) struct SandboxImage {
    /// The base image.
    pub(crate) image: String,
    /// Where the base image is named.
    pub(crate) image_span: Span,
    /// The workspace: the last WORKDIR.
    pub(crate) workdir: Option<String>,
    pub(crate) vars: Vec<(String, String)>,
    /// By path in the workspace.
    pub(crate) files: Vec<(String, FixtureSource, u32)>,
    pub(crate) setup: Vec<String>,
}

/// Reads a Dockerfile. `None` if it cannot be read; problems go to the findings.
pub(crate) fn apply(source: &Arc<Source>, base: &Base<'_>, findings: &mut Findings) -> Option<SandboxImage> {
    let (found, escape) = match instructions(source) {
        Ok(found) => found,
        Err(problem) => {
            findings.adopt(&problem.into());
            return None;
        }
    };
    refuse_starts(source, &found, base.starts, findings);
    let mut build = Build {
        source,
        base,
        findings,
        escape,
        image: None,
        early: BTreeMap::new(),
        arguments: BTreeMap::new(),
        environment: Vec::new(),
        workdir: None,
        copied: Vec::new(),
        folders: Vec::new(),
        runs: Vec::new(),
    };
    for instruction in &found {
        build.instruction(instruction);
    }
    build.finish()
}

struct Build<'a> {
    source: &'a Arc<Source>,
    base: &'a Base<'a>,
    findings: &'a mut Findings,
    escape: char,
    image: Option<(String, Span)>,
    /// Arguments set before FROM, for FROM alone.
    early: BTreeMap<String, String>,
    arguments: BTreeMap<String, String>,
    environment: Vec<(String, String)>,
    workdir: Option<String>,
    copied: Vec<CopiedFile>,
    /// With the place that needs them.
    folders: Vec<(String, Span)>,
    runs: Vec<Run>,
}

impl Build<'_> {
    fn instruction(&mut self, instruction: &Instruction) {
        let span = instruction.span;
        if self.image.is_none() && !matches!(instruction.keyword.as_str(), "FROM" | "ARG") {
            let help = "begin with `FROM image`";
            return self.refuse(span, format!("`{}` is before FROM", instruction.keyword), help);
        }
        match instruction.keyword.as_str() {
            "FROM" => self.from(instruction),
            "ARG" => self.argument(instruction),
            "ENV" => self.variables(instruction),
            "WORKDIR" => self.enter(instruction),
            "COPY" | "ADD" => self.copy(instruction),
            "RUN" => self.run(instruction),
            "USER" => self.note(instruction, "the agent of a sandbox is an ordinary user"),
            "CMD" | "ENTRYPOINT" => self.note(instruction, "a sandbox starts a shell"),
            "LABEL" | "MAINTAINER" | "EXPOSE" | "STOPSIGNAL" | "HEALTHCHECK" | "ONBUILD" => {
                self.note(instruction, "it does not affect attempts");
            }
            "VOLUME" => self.note(instruction, "a sandbox keeps no data"),
            "SHELL" => {
                let help = "write the commands for `sh`, or import for containers";
                self.refuse(span, "`SHELL` is not supported in a sandbox", help);
            }
            other => {
                self.refuse(span, format!("unknown instruction `{other}`"), "correct its name");
            }
        }
    }

    fn from(&mut self, instruction: &Instruction) {
        let span = instruction.span;
        if self.image.is_some() {
            let help =
                "import it for containers, or build the image elsewhere, unpack it and name it in one FROM";
            return self.refuse(span, "a build with several stages is not supported in a sandbox", help);
        }
        self.flags(instruction, &["platform"]);
        let words = split(&instruction.rest, self.escape);
        let name = words.first().map(|word| expand(word, self.escape, &self.early));
        match name {
            Some(Ok(name)) if name == "scratch" => {
                self.refuse(span, "`FROM scratch` has no programs", "name an image with a shell");
            }
            Some(Ok(name)) => self.image = Some((name, span)),
            Some(Err(wrong)) => self.refuse(span, wrong, "write the name without variables"),
            None => self.refuse(span, "FROM names no image", "write `FROM image`"),
        }
    }

    fn argument(&mut self, instruction: &Instruction) {
        for word in split(&instruction.rest, self.escape) {
            let (name, default) = match word.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (word, None),
            };
            let known = self.variables_now();
            let value = match default.map(|value| expand(&value, self.escape, &known)) {
                Some(Ok(value)) => Some(value),
                Some(Err(wrong)) => {
                    return self.refuse(instruction.span, wrong, "write the value without variables");
                }
                // Its bare name repeats an argument from before FROM.
                None => self.early.get(&name).cloned(),
            };
            let Some(value) = value else { continue };
            let scope = if self.image.is_none() { &mut self.early } else { &mut self.arguments };
            scope.insert(name, value);
        }
    }

    fn variables(&mut self, instruction: &Instruction) {
        match pairs(&instruction.rest, self.escape, &self.variables_now()) {
            Ok(pairs) => {
                for (name, value) in pairs {
                    self.environment.retain(|(known, _)| *known != name);
                    self.environment.push((name, value));
                }
            }
            Err(wrong) => self.refuse(instruction.span, wrong, "write the value without variables"),
        }
    }

    fn enter(&mut self, instruction: &Instruction) {
        match expand(instruction.rest.trim(), self.escape, &self.variables_now()) {
            Ok(path) if !path.is_empty() => {
                let path = absolute(&path, self.here());
                if self.runs.is_empty() {
                    self.folders.push((path.clone(), instruction.span));
                } else {
                    // A step of its own: a RUN above may create the same folder.
                    self.step(Some(path.clone()), String::new(), instruction.span);
                }
                self.workdir = Some(path);
            }
            Ok(_) => self.refuse(instruction.span, "WORKDIR has no path", "write `WORKDIR /app`"),
            Err(wrong) => self.refuse(instruction.span, wrong, "write the path without variables"),
        }
    }

    fn copy(&mut self, instruction: &Instruction) {
        let span = instruction.span;
        let keyword = instruction.keyword.as_str();
        if !self.runs.is_empty() {
            let help = "move it above the first RUN: a sandbox copies all files before the first command";
            return self.refuse(span, format!("{keyword} is after a RUN"), help);
        }
        self.flags(instruction, &["chmod", "chown", "link"]);
        if instruction.flags.iter().any(|(name, _)| name == "from") {
            return;
        }
        let Some((sources, to)) = self.operands(instruction) else { return };
        let is_folder = to.ends_with('/')
            || to == "."
            || to.ends_with("/.")
            || sources.len() + instruction.heredocs.len() > 1;
        let path = absolute(&to, self.here());
        let is_folder = is_folder || path == self.here() || self.is_folder(&path);
        let mode = self.mode(instruction);
        if keyword == "ADD"
            && let Some((message, help)) = sources.iter().find_map(|source| refused_by_add(source))
        {
            return self.refuse(span, message, help);
        }
        for heredoc in &instruction.heredocs {
            if heredoc.expands && heredoc.body.contains(['$', self.escape]) {
                let help = format!("quote the name, `<<'{}'`, to take the text literally", heredoc.name);
                self.refuse(span, "here-documents with variables are not supported", help);
                continue;
            }
            let to = if is_folder { join(&path, &heredoc.name) } else { path.clone() };
            let content = FixtureSource::Bytes(heredoc.body.clone().into_bytes());
            self.copied.push(CopiedFile { to, content, mode: mode.unwrap_or(0o644), span });
        }
        if sources.is_empty() {
            return;
        }
        let tree = self.base.tree;
        match copied(tree, &sources, &Destination { path: &path, is_folder }) {
            Ok(copied) => copied.into_iter().for_each(|copied| self.lay(copied, mode, span)),
            Err(wrong) => {
                let help = "name files of the build folder, which is the folder of the Dockerfile";
                self.refuse(span, wrong, help);
            }
        }
    }

    /// Sources and destination, with variables replaced.
    fn operands(&mut self, instruction: &Instruction) -> Option<(Vec<String>, String)> {
        let span = instruction.span;
        let known = self.variables_now();
        let words: Result<Vec<String>, String> = match json_list(&instruction.rest) {
            Some(words) => Ok(words),
            None => split(&instruction.rest, self.escape)
                .iter()
                .filter(|word| !word.starts_with("<<"))
                .map(|word| expand(word, self.escape, &known))
                .collect(),
        };
        let mut words = match words {
            Ok(words) => words,
            Err(wrong) => {
                self.refuse(span, wrong, "write the path without variables");
                return None;
            }
        };
        let to = words.pop();
        match to {
            Some(to) if !words.is_empty() || !instruction.heredocs.is_empty() => Some((words, to)),
            _ => {
                let message = format!("{} needs a source and a destination", instruction.keyword);
                self.refuse(span, message, "write `COPY source destination`");
                None
            }
        }
    }

    fn mode(&mut self, instruction: &Instruction) -> Option<u32> {
        let (_, value) = instruction.flags.iter().find(|(name, _)| name == "chmod")?;
        match u32::from_str_radix(value, 8) {
            Ok(mode) if mode <= 0o777 => Some(mode),
            _ => {
                self.refuse(
                    instruction.span,
                    format!("`--chmod={value}` is not a mode"),
                    "write octal digits, such as `--chmod=755`",
                );
                None
            }
        }
    }

    fn lay(&mut self, copied: Copied<'_>, mode: Option<u32>, span: Span) {
        match copied {
            Copied::Folder(path) => self.folders.push((path, span)),
            Copied::File { file: TreeFile { from, mode: own, .. }, to } => {
                let content = FixtureSource::File(from.clone());
                self.copied.push(CopiedFile { to, content, mode: mode.unwrap_or(*own), span });
            }
            Copied::InFolder { file, to } => {
                let content = FixtureSource::of(file);
                self.copied.push(CopiedFile { to, content, mode: mode.unwrap_or(file.mode), span });
            }
        }
    }

    fn run(&mut self, instruction: &Instruction) {
        let span = instruction.span;
        self.flags(instruction, &[]);
        let list = json_list(&instruction.rest);
        let bare = instruction.rest.trim_start().starts_with("<<")
            && split(&instruction.rest, self.escape).len() == 1;
        let script = match (&list, instruction.heredocs.as_slice()) {
            (Some(words), _) => words.iter().map(|text| word(text)).collect::<Vec<_>>().join(" "),
            (None, [one]) if bare && one.body.starts_with("#!") => {
                let help = "pass the text to its program: `RUN python3 <<EOF`";
                return self.refuse(
                    span,
                    "a RUN script that names its own interpreter is not supported",
                    help,
                );
            }
            (None, [one]) if bare => one.body.clone(),
            (None, heredocs) => {
                let bodies: String =
                    heredocs.iter().map(|heredoc| format!("\n{}{}", heredoc.body, heredoc.name)).collect();
                format!("{}{bodies}", instruction.rest)
            }
        };
        match need(&script) {
            Some(Need::Network(program)) => {
                let help = "a sandbox has no network during setup; use an image that already has this, or import for containers";
                return self.refuse(span, format!("RUN uses `{program}`, which needs a network"), help);
            }
            Some(Need::Root(program)) => {
                let help = "the agent of a sandbox is an ordinary user; use an image that already has this, or import for containers";
                return self.refuse(span, format!("RUN uses `{program}`, which needs root"), help);
            }
            None => {}
        }
        let command =
            if list.is_some() { script } else { format!("sh -c {}", word(script.trim_end_matches('\n'))) };
        self.step(None, command, span);
    }

    /// Adds a setup step with the current variables.
    fn step(&mut self, makes: Option<String>, command: String, span: Span) {
        self.runs.push(Run {
            makes,
            command,
            workdir: self.here().to_owned(),
            arguments: self.arguments.clone(),
            environment: self.environment.clone(),
            span,
        });
    }

    fn flags(&mut self, instruction: &Instruction, allowed: &[&str]) {
        for (name, _) in &instruction.flags {
            if name == "chown" && allowed.contains(&"chown") {
                self.note(instruction, "the owner: in a sandbox, all files belong to the agent");
            } else if !allowed.contains(&name.as_str()) {
                let message = format!("`{} --{name}` is not supported in a sandbox", instruction.keyword);
                self.refuse(instruction.span, message, "remove it, or import for containers");
            }
        }
    }

    fn variables_now(&self) -> BTreeMap<String, String> {
        if self.image.is_none() {
            return self.early.clone();
        }
        let mut variables = self.arguments.clone();
        variables.extend(self.environment.iter().cloned());
        variables
    }

    fn here(&self) -> &str {
        self.workdir.as_deref().unwrap_or("/")
    }

    fn is_folder(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        self.folders.iter().any(|(folder, _)| folder == path || folder.starts_with(&inside))
            || self.copied.iter().any(|file| file.to.starts_with(&inside))
    }

    fn note(&mut self, instruction: &Instruction, why: &str) {
        let line = self.source.line_column(instruction.span).0;
        self.findings.note(format!("Dockerfile line {line}: `{}` is left out: {why}", instruction.keyword));
    }

    fn refuse(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.findings.refuse(self.source, span, "not possible", message, help);
    }

    fn finish(mut self) -> Option<SandboxImage> {
        let Some((image, image_span)) = self.image.take() else {
            self.refuse(Span::default(), "the Dockerfile has no FROM", "begin with `FROM image`");
            return None;
        };
        let workdir = self.base.workdir.map(str::to_owned).or_else(|| self.workdir.clone());
        let Some(workdir) = workdir.filter(|workdir| workdir != "/") else {
            let help = "add `WORKDIR /app`: the workspace of a sandbox is one folder below the root";
            self.refuse(image_span, "the Dockerfile sets no working folder", help);
            return None;
        };
        let inside = |path: &str| -> Option<String> {
            let rest = path.strip_prefix(workdir.as_str())?;
            if rest.is_empty() { Some(String::new()) } else { rest.strip_prefix('/').map(str::to_owned) }
        };
        let mut result =
            SandboxImage { image, image_span, vars: self.environment.clone(), ..SandboxImage::default() };
        let outside = |path: &str| format!("`{path}` is outside of the workspace `{workdir}`");
        let help = "a sandbox can write only in the workspace; move it there, or import for containers";
        for file in std::mem::take(&mut self.copied) {
            match inside(&file.to).filter(|path| !path.is_empty()) {
                Some(path) => {
                    result.files.retain(|(known, _, _)| *known != path);
                    result.files.push((path, file.content, file.mode));
                }
                None => self.refuse(file.span, outside(&file.to), help),
            }
        }
        let mut made: Vec<String> = Vec::new();
        for (folder, span) in std::mem::take(&mut self.folders) {
            // A folder above the workspace exists with it.
            if workdir.starts_with(&format!("{}/", folder.trim_end_matches('/'))) {
                continue;
            }
            match inside(&folder) {
                Some(path) if path.is_empty() => {}
                Some(path) => {
                    let below = format!("{path}/");
                    if !result.files.iter().any(|(file, _, _)| file.starts_with(&below))
                        && !made.contains(&path)
                    {
                        made.push(path);
                    }
                }
                None => self.refuse(span, outside(&folder), help),
            }
        }
        if !made.is_empty() {
            let words: Vec<String> = made.iter().map(|folder| word(folder)).collect();
            result.setup.push(format!("mkdir -p {}", words.join(" ")));
        }
        for run in std::mem::take(&mut self.runs) {
            if let Some(folder) = &run.makes {
                let above = workdir.starts_with(&format!("{}/", folder.trim_end_matches('/')));
                match inside(folder) {
                    Some(path) if !path.is_empty() => result.setup.push(format!("mkdir -p {}", word(&path))),
                    None if !above => self.refuse(run.span, outside(folder), help),
                    _ => {}
                }
                continue;
            }
            if inside(&run.workdir).is_none() {
                let message = format!("RUN runs in `{}`, outside of the workspace `{workdir}`", run.workdir);
                self.refuse(run.span, message, "put `WORKDIR` above it");
                continue;
            }
            let command = setup_command(&run, &self.environment, &workdir);
            result.setup.push(command);
        }
        result.workdir = Some(workdir);
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dockerfile::StartedPrograms;
    use crate::keep_alive::IN_SETUP;

    fn file(path: &str) -> TreeFile {
        TreeFile { path: path.to_owned(), from: path.into(), mode: 0o644, bytes: 0, link: None }
    }

    /// Files, setup commands and variables, or the problems.
    fn check(text: &str, files: &[&str], setup: &[&str], problems: &[&str]) {
        let source = Arc::new(Source::new("Dockerfile".as_ref(), "Dockerfile".into(), text));
        let tree =
            Tree { files: vec![file("a.txt"), file("sub/b.txt")], empty_folders: vec!["sub/c".to_owned()] };
        let mut findings = Findings::default();
        let starts = StartRules { what: StartedPrograms::EntrypointAndCommand, instead: IN_SETUP };
        let image = apply(&source, &Base { tree: &tree, workdir: None, starts }, &mut findings);
        let found = findings.finish().err();
        let found: Vec<String> = found
            .iter()
            .flat_map(|error| error.problems())
            .map(|problem| problem.message().to_owned())
            .collect();
        assert_eq!(found, problems, "{text}");
        if problems.is_empty() {
            let image = image.expect("an image without problems");
            let copied: Vec<String> =
                image.files.iter().map(|(path, _, mode)| format!("{path} {mode:o}")).collect();
            assert_eq!(copied, files, "{text}");
            assert_eq!(image.setup, setup, "{text}");
        }
    }

    #[test]
    fn copy_and_run_become_files_and_setup() {
        check(
            "FROM x\nWORKDIR /w\nCOPY . .\nRUN make",
            &["a.txt 644", "sub/b.txt 644"],
            &["mkdir -p sub/c", "(sh -c make < /dev/null)"],
            &[],
        );
        check("FROM x\nWORKDIR /w\nCOPY --chmod=700 a.txt n", &["n 700"], &[], &[]);
        check(
            "FROM x\nWORKDIR /w\nCOPY a.txt n/\nCOPY sub/b.txt n",
            &["n/a.txt 644", "n/b.txt 644"],
            &[],
            &[],
        );
        check("FROM x\nWORKDIR /w/n\nWORKDIR ..", &[], &["mkdir -p n"], &[]);
        check("FROM x\nWORKDIR /w\nENTRYPOINT [\"bash\"]\nCMD [\"-l\"]", &[], &[], &[]);
    }

    #[test]
    fn steps_keep_order_folder_and_variables() {
        check(
            "FROM x\nARG A=1\nENV B=2\nWORKDIR /w\nRUN mkdir n\nWORKDIR n\nENV B=3 C=4\nRUN [\"ls\", \"a b\"]\nWORKDIR /w",
            &[],
            &[
                "(env -u C A=1 B=2 sh -c 'mkdir n' < /dev/null)",
                "mkdir -p n",
                "(cd /w/n && env A=1 ls 'a b' < /dev/null)",
            ],
            &[],
        );
        check(
            "FROM x\nWORKDIR /w\nRUN cat <<E\n$A\nE\n",
            &[],
            &["(sh -c 'cat <<E\n$A\nE' < /dev/null)"],
            &[],
        );
    }

    #[test]
    fn steps_outside_workspace_are_refused() {
        check(
            "FROM x\nWORKDIR /w\nCOPY a.txt /v/",
            &[],
            &[],
            &["`/v/a.txt` is outside of the workspace `/w`"],
        );
        check("FROM x\nRUN ls\nWORKDIR /w", &[], &[], &["RUN runs in `/`, outside of the workspace `/w`"]);
        check("FROM x\nWORKDIR /w\nCMD server", &[], &[], &["`CMD server` would not run"]);
        check("FROM x\nWORKDIR /", &[], &[], &["the Dockerfile sets no working folder"]);
        check("WORKDIR /w", &[], &[], &["`WORKDIR` is before FROM", "the Dockerfile has no FROM"]);
    }
}
