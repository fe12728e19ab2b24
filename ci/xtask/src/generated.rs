//! Files, and parts of files, that are written by `cargo xtask generate` and never by hand.

use crate::edges;
use crate::problem::Problem;
use crate::tree::Tree;

/// A file as it should be.
pub(crate) struct Generated {
    pub(crate) path: &'static str,
    pub(crate) text: String,
}

/// Every generated file, up to date.
pub(crate) fn files(tree: &Tree) -> Vec<Generated> {
    let page = tree.text(edges::PAGE).and_then(edges::updated);
    let page = page.map(|text| Generated { path: edges::PAGE, text });
    let suites =
        Generated { path: "tasks/schema/suite.schema.json", text: clawrl_config::json_schema_text() };
    let trainings =
        Generated { path: "tasks/schema/train.schema.json", text: clawrl_config::train_schema_text() };
    let policies =
        Generated { path: "tasks/schema/policy.schema.json", text: clawrl_config::policy_schema_text() };
    let agents =
        Generated { path: "tasks/schema/agent.schema.json", text: clawrl_config::agent_schema_text() };
    let chats = Generated { path: "tasks/schema/chat.schema.json", text: clawrl_config::chat_schema_text() };
    let gates = Generated { path: "tasks/schema/ci.schema.json", text: clawrl_config::ci_schema_text() };
    page.into_iter().chain([suites, trainings, policies, agents, chats, gates]).collect()
}

/// Checks that the files in the repository are those.
pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    files(tree).iter().filter_map(|file| stale(file, tree.text(file.path))).collect()
}

fn stale(file: &Generated, found: Option<&str>) -> Option<Problem> {
    let advice = "run `cargo xtask generate`";
    let Some(found) = found else {
        return Some(Problem::new(file.path, 1, format!("is missing; {advice}")));
    };
    let same = found.lines().zip(file.text.lines()).take_while(|(found, wanted)| found == wanted).count();
    (found != file.text).then(|| Problem::new(file.path, same + 1, format!("is not current; {advice}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(found: Option<&str>, expected: Option<&str>) {
        let file = Generated { path: "a.json", text: "1\n2\n".to_owned() };
        assert_eq!(stale(&file, found).map(|problem| problem.to_string()).as_deref(), expected, "{found:?}");
    }

    #[test]
    fn a_file_is_current_to_the_last_byte() {
        check(Some("1\n2\n"), None);
        check(Some("1\n3\n"), Some("a.json:2: is not current; run `cargo xtask generate`"));
        check(Some("1\n2"), Some("a.json:3: is not current; run `cargo xtask generate`"));
        check(Some("1\n2\n3\n"), Some("a.json:3: is not current; run `cargo xtask generate`"));
        check(None, Some("a.json:1: is missing; run `cargo xtask generate`"));
    }
}
