//! Turns an instance into a task of a suite, with its files (W2).

use clawrl_config::{Node, NodeValue};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::instance::Instance;
use super::options::SweOptions;
use super::runner::{Runner, is_of_gym, test_files};
use crate::draft::{Fixture, FixtureSource, text};
use crate::import::slug;

/// Maximum test names in the suite's own file; more go into a separate file.
const MAX_NAMES: usize = 16;

/// Folder of the repository in the images of SWE-bench and most similar data sets.
const TESTBED: &str = "/testbed";
const ACTIVATE: &str = "source /opt/miniconda3/bin/activate testbed";

/// Maximum length of an id.
const MAX_ID: usize = 64;

/// A task of the suite, its files, and its entry in the import record.
pub(super) struct Task {
    pub(super) id: String,
    pub(super) node: Node,
    pub(super) fixtures: Vec<Fixture>,
    pub(super) record: Value,
}

/// The id of an instance; a long one is cut, and gets a hash of the whole.
pub(super) fn task_id(instance: &str) -> String {
    let id = slug(instance);
    if id.len() < MAX_ID {
        return id;
    }
    let digest = Sha256::digest(instance);
    let mark: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{mark}", id[..MAX_ID - 9].trim_end_matches('-'))
}

/// Makes the task. `assets` lie in `fixtures/ID/assets`.
///
/// # Errors
/// No image is named.
pub(super) fn task(
    instance: &Instance,
    runner: &Runner,
    assets: Vec<Fixture>,
    options: &SweOptions,
) -> Result<Task, String> {
    let id = task_id(&instance.id);
    let image = image(instance, options)?;
    let workdir =
        options.workdir.clone().or_else(|| runner.workdir.clone()).unwrap_or_else(|| workdir(instance));
    let activates =
        runner.activates.unwrap_or(workdir == TESTBED && matches!(runner.parser, "pytest" | "unittest"));
    let activate = match &options.activate {
        Some(line) => Some(line.as_str()).filter(|line| !line.trim().is_empty()),
        None => activates.then_some(ACTIVATE),
    };
    let mut files = Files { folder: format!("fixtures/{id}"), fixtures: assets };
    let has_assets = !files.fixtures.is_empty();
    let mut swe = vec![("image", Node::map(vec![("name", text(&image)), ("workdir", text(&workdir))]))];
    if let Some(commit) = &instance.base_commit {
        swe.push(("base_commit", text(commit)));
    }
    if let Some(fault) = &instance.fault {
        let path = files.add("fault.patch", fault.clone());
        swe.push(("apply", NodeValue::List(vec![path]).into()));
    }
    if let Some(line) = activate {
        swe.push(("activate", text(line)));
    }
    swe.extend([("test", text(&runner.command)), ("parser", runner.parser.into())]);
    if let Some(patch) = &instance.test_patch {
        swe.push(("test_patch", files.add("test.patch", patch.text.clone())));
    }
    if has_assets {
        swe.push(("test_files", format!("{}/assets", files.folder).as_str().into()));
    }
    swe.push(("fail_to_pass", files.names("fail_to_pass.json", &instance.fail_to_pass)));
    if !instance.pass_to_pass.is_empty() {
        swe.push(("pass_to_pass", files.names("pass_to_pass.json", &instance.pass_to_pass)));
    }
    // Without a test patch, the names of files show which of them are tests.
    if instance.test_patch.is_none()
        && let Ok(paths) = test_files(instance)
        && !paths.is_empty()
    {
        let paths = paths.iter().map(|path| text(path)).collect();
        swe.push(("protected", NodeValue::List(paths).into()));
    }
    let gold = files.add("gold.patch", instance.gold.clone());
    let node = Node::map(vec![
        ("id", id.as_str().into()),
        ("instruction", text(&instruction(instance, options.hints))),
        ("env", Node::map(vec![("swe", Node::map(swe))])),
        ("oracle", Node::map(vec![("patch", gold)])),
    ]);
    let record = json!({
        "id": id, "instance_id": instance.id, "repo": instance.repo, "version": instance.version,
        "image": image, "test_from": runner.from,
    });
    Ok(Task { id, node, fixtures: files.fixtures, record })
}

fn instruction(instance: &Instance, with_hints: bool) -> String {
    let statement = instance.problem_statement.trim();
    match instance.hints.as_deref().filter(|_| with_hints) {
        Some(hints) => format!("{statement}\n\nWhat was said about it:\n\n{}", hints.trim()),
        None => statement.to_owned(),
    }
}

/// The image's name.
fn image(instance: &Instance, options: &SweOptions) -> Result<String, String> {
    let low = instance.id.to_lowercase();
    if let Some(template) = &options.image {
        return Ok(template
            .replace("{instance_id}", &low)
            .replace("{image_id}", &low.replace("__", "_1776_")));
    }
    if let Some(image) = &instance.image {
        return Ok(image.name.clone());
    }
    if instance.fault.is_some() {
        return Err("it names no image: name one with `--image`".to_owned());
    }
    if is_of_gym(&instance.repo) {
        return Ok(format!("xingyaoww/sweb.eval.x86_64.{}:latest", low.replace("__", "_s_")));
    }
    Ok(format!("swebench/sweb.eval.x86_64.{}:latest", low.replace("__", "_1776_")))
}

/// Images of SWE-rebench's second version have the repository in a folder of its name.
fn workdir(instance: &Instance) -> String {
    let is_second = instance.image.as_ref().is_some_and(|image| image.column == "image_name")
        && instance.test_command.is_some();
    match instance.repo.rsplit('/').next() {
        Some(name) if is_second && !name.is_empty() => format!("/{name}"),
        _ => TESTBED.to_owned(),
    }
}

/// The files of a task.
struct Files {
    folder: String,
    fixtures: Vec<Fixture>,
}

impl Files {
    /// Adds a file, and returns its path as a suite writes it.
    fn add(&mut self, name: &str, content: String) -> Node {
        let path = format!("{}/{name}", self.folder);
        let node = path.as_str().into();
        self.fixtures.push(Fixture {
            path,
            content: FixtureSource::Bytes(content.into_bytes()),
            mode: 0o644,
        });
        node
    }

    /// Names of tests; many go into a separate file.
    fn names(&mut self, file: &str, names: &[String]) -> Node {
        if names.len() <= MAX_NAMES {
            return NodeValue::List(names.iter().map(|name| text(name)).collect()).into();
        }
        let lines: Vec<String> = names.iter().map(|name| json!(name).to_string()).collect();
        Node::map(vec![("from", self.add(file, format!("[\n{}\n]\n", lines.join(",\n"))))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(instance: &str, expected: &str) {
        let id = task_id(instance);
        assert_eq!(id, expected);
        assert!(id.len() <= MAX_ID);
    }

    #[test]
    fn instances_have_unique_ids() {
        check("django__django-11099", "django-django-11099");
        check("o__r.1a2b.combine_file__09vl", "o-r-1a2b-combine-file-09vl");
        check(&format!("o__{}-1", "r".repeat(80)), &format!("o-{}-2f0cf6f2", "r".repeat(53)));
        check(&format!("o__{}-2", "r".repeat(80)), &format!("o-{}-f2b64086", "r".repeat(53)));
    }
}
