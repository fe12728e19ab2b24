//! Plans of agent files, and the errors of broken ones. One snapshot for each file in `agent/broken/`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clawrl_config::{AgentFilePlan, load_agent};
use clawrl_core::{AgentDoor, AgentLimits};

use crate::diagnostics::rendered;

fn good(name: &str) -> AgentFilePlan {
    load_agent(Path::new(&format!("tests/it/agent/good/{name}.yaml")))
        .unwrap_or_else(|error| panic!("{}", rendered(&error)))
}

#[test]
fn every_broken_agent_file_is_explained() {
    let entries = std::fs::read_dir("tests/it/agent/broken").expect("a folder of agent files");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("its entries").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    assert!(files.len() >= 9);
    for path in files {
        let Err(error) = load_agent(&path) else { panic!("{} should be refused", path.display()) };
        for problem in error.problems() {
            let (file, line, column) = problem.location().expect("a place in the file");
            assert_eq!(file, path.to_str().unwrap());
            assert!(line >= 1 && column >= 1 && !problem.help_text().is_empty(), "{problem}");
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        // Snapshots must not contain the path of this checkout.
        let here = std::env::current_dir().unwrap();
        let text = rendered(&error).replace(here.to_str().unwrap(), "HERE");
        insta::with_settings!({ snapshot_path => "agent/broken", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name, text);
        });
    }
}

/// Semantics lock: the defaults of an agent file. Change them only on purpose.
#[test]
fn defaults_are_locked() {
    let home = std::path::absolute("tests/it/agent/good").unwrap();
    let expected = AgentFilePlan {
        command: vec!["python3".to_owned(), "agent.py".to_owned()],
        folder: home.clone(),
        env: Vec::new(),
        secrets: Vec::new(),
        door: AgentDoor::Stdio,
        model: None,
        home,
        limits: AgentLimits { time: None, model_calls: 1_000 },
    };
    assert_eq!(good("minimal"), expected);
}

#[test]
fn everything_reaches_the_plan() {
    let plan = good("everything");
    assert_eq!((plan.folder, plan.door), (plan.home.join(".."), AgentDoor::Http));
    assert_eq!((plan.env.len(), plan.secrets.as_slice()), (2, &["SEARCH_KEY".to_owned()][..]));
    assert_eq!(plan.model.as_deref(), Some("remote:policy.yaml"));
    let time = Some(Duration::from_millis(90_500));
    assert_eq!(plan.limits, AgentLimits { time, model_calls: 12 });
}
