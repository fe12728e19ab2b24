//! Help texts.

use crate::place::Place;

#[test]
fn every_command_explains_itself_with_an_example() {
    let place = Place::new();
    for command in [
        "run",
        "ci",
        "chat",
        "cassette",
        "validate",
        "plan",
        "new",
        "ls",
        "show",
        "metrics",
        "eval",
        "clean",
        "doctor",
        "completions",
        "man",
        "help",
    ] {
        let help = place.clawrl(&[command, "--help"]).ends(0);
        assert!(help.out.contains("Example"), "{command}: {}", help.out);
        assert_eq!(help.out, place.clawrl(&["help", command]).ends(0).out, "{command}");
    }
}

#[test]
fn overview_and_topics() {
    let place = Place::new();
    insta::assert_snapshot!("overview", place.clawrl(&["--help"]).ends(0).out);
    insta::assert_snapshot!("run", place.clawrl(&["help", "run"]).ends(0).out);
    assert!(place.clawrl(&["help", "exit-codes"]).ends(0).out.contains("\n   9  Training aborted"));
    let variables = place.clawrl(&["help", "environment"]).ends(0).out;
    for name in ["CLAWRL_RESULTS", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "SSL_CERT_FILE", "TMPDIR"] {
        assert!(variables.lines().any(|line| line.starts_with(&format!("{name} "))), "{name}: {variables}");
    }
    for text in [&place.clawrl(&["help", "exit-codes"]).ends(0).out, &variables] {
        assert!(!text.contains('|') && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
    insta::assert_snapshot!(place.clawrl(&["help", "nothing"]).ends(2).err, @"
    error: there is no help on `nothing`
      help: topics: exit-codes, environment, run, train, policy, serve, chat, eval, cassette, validate, ci, env, plan, new, import, ls, show, report, view, compare, metrics, clean, doctor, completions, man, help
    ");
}

/// Every example in help texts is a valid command line.
#[test]
fn examples_run() {
    let place = Place::new();
    let text = crate::place::SMALL
        .replace("suite: small", "suite: terminal-basics")
        .replace("id: copy", "id: copy-file");
    place.suite("terminal-basics", &text);
    place.clawrl(&["new", "suite", "my-suite"]).ends(0);
    place.clawrl(&["run", "small", "--name", "my-run", "--group-size", "2", "--quiet"]).ends(0);
    let mut examples = Vec::new();
    for command in ["run", "validate", "plan", "ls", "show", "doctor", "help"] {
        let help = place.clawrl(&[command, "--help"]).ends(0).out;
        let (_, after) = help.split_once("Example").unwrap();
        let lines = after.lines().skip(1).filter_map(|line| line.trim().strip_prefix("clawrl "));
        examples.extend(lines.map(|line| line.replace(['\'', '"'], "")));
    }
    assert!(examples.len() >= 9, "{examples:?}");
    for example in examples {
        let words: Vec<&str> = example.split(' ').collect();
        let said = place.clawrl(&words);
        assert_eq!(said.code, Some(0), "{example}: {said:?}");
    }
}
