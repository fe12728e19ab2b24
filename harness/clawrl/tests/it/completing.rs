//! `clawrl completions` and `clawrl man`.

use std::fs;
use std::process::Command;

use crate::place::Place;

/// Completions that bash offers for the last word, with the script in the folder.
fn offered(place: &Place, words: &str) -> Vec<String> {
    let ask = format!(
        "source ./completions.bash\n\
         [[ $(complete -p clawrl) == *'-F _clawrl'*clawrl ]] || exit 9\n\
         COMP_WORDS=({words})\n\
         COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
         _clawrl clawrl \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
    );
    let output =
        Command::new("bash").args(["--norc", "-c", &ask]).current_dir(place.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    let place = Place::new();
    let script = place.clawrl(&["completions", "bash"]).ends(0).out;
    fs::write(place.path().join("completions.bash"), script).unwrap();
    let check = |words: &str, expected: &[&str]| assert_eq!(offered(&place, words), expected, "{words}");
    check("clawrl val", &["validate"]);
    check("clawrl new su", &["suite"]);
    check("clawrl run --redact", &["--redact-env"]);
    check("clawrl run --split ''", &["all", "train", "held-out"]);
    check("clawrl completions z", &["zsh"]);
}

#[test]
fn every_shell_has_its_script() {
    let place = Place::new();
    for (shell, begins) in [
        ("bash", "_clawrl() {"),
        ("elvish", "\nuse builtin;"),
        ("fish", "# Print an optspec"),
        ("powershell", "\nusing namespace System.Management.Automation"),
        ("zsh", "#compdef clawrl"),
    ] {
        let script = place.clawrl(&["completions", shell]).ends(0).out;
        assert!(script.starts_with(begins), "{shell}: {}", &script[..80]);
        assert!(script.contains("validate") && script.contains("redact-env"), "{shell}");
    }
    let refused = place.clawrl(&["completions", "tcsh"]).ends(2);
    assert!(refused.err.contains("possible values: bash, elvish, fish, powershell, zsh"), "{}", refused.err);
}

#[test]
fn the_manual_has_a_page_for_every_command() {
    let place = Place::new();
    let page = place.clawrl(&["man"]).ends(0).out;
    for part in [".TH clawrl 1", ".SH NAME", ".SH \"EXIT STATUS\"", ".SH ENVIRONMENT", "CLAWRL_RESULTS"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let said = place.clawrl(&["man", "--output", "pages/man1"]).ends(0);
    let written: Vec<&str> = said.out.lines().collect();
    for name in ["clawrl", "clawrl-run", "clawrl-new-suite", "clawrl-policy-init", "clawrl-help"] {
        let path = format!("pages/man1/{name}.1");
        assert!(written.contains(&path.as_str()), "{path}: {written:?}");
        let text = fs::read_to_string(place.path().join(&path)).unwrap();
        assert!(text.contains(&format!(".TH {name} 1")), "{text}");
    }
    assert_eq!(fs::read_to_string(place.path().join("pages/man1/clawrl.1")).unwrap(), page);
    assert_eq!(fs::read_dir(place.path().join("pages/man1")).unwrap().count(), written.len());
    fs::write(place.path().join("file"), "").unwrap();
    assert!(place.clawrl(&["man", "--output", "file"]).ends(7).err.contains("cannot write file"));
}

/// If groff is installed, it renders the page without warnings.
#[test]
fn groff_sets_the_page() {
    let place = Place::new();
    fs::write(place.path().join("clawrl.1"), place.clawrl(&["man"]).ends(0).out).unwrap();
    let mut groff = Command::new("groff");
    groff.args(["-man", "-Tutf8", "-P-cbou", "-rLL=100n", "clawrl.1"]).current_dir(place.path());
    let Ok(output) = groff.output() else {
        println!("not run: this machine has no groff");
        return;
    };
    let (shown, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.is_empty(), "{said}");
    for part in ["EXIT STATUS", "clawrl-run(1)", "CLAWRL_LOG", "Training aborted"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}
