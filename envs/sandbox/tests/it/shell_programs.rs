//! Programs that are driven by keys: full-screen ones and REPLs.

use clawrl_sandbox::{ShellState, StepEnd, StepNote};

use crate::shell_fixture::{exited, patient_shell, shell};

#[tokio::test]
async fn less_shows_a_screen() {
    let mut shell = shell().await;
    let output = shell.run("seq 1 500 | less").await;
    assert_eq!(output.end, StepEnd::Running);
    let screen = output.screen.unwrap();
    assert!(screen.full_screen && screen.text.starts_with("1\n2\n3\n"), "{screen:?}");
    assert_eq!(screen.cursor_row, 24);
    assert!(output.text.ends_with("[cursor at row 24, column 2]"), "{}", output.text);
    let output = shell.keys("Space").await;
    assert!(output.text.starts_with("24\n25\n"), "{}", output.text);
    // The cursor keys are in application mode now.
    let output = shell.keys("Up").await;
    assert!(output.text.starts_with("23\n24\n"), "{}", output.text);
    let output = shell.keys("q").await;
    assert_eq!((output.text.as_str(), output.end, output.screen), ("", exited(0), None));
    shell.check("echo fine", "fine\n", 0).await;
}

#[tokio::test]
async fn vi_edits_a_file() {
    let mut shell = shell().await;
    if shell.run("command -v vi").await.end != exited(0) {
        // No editor on this machine; less and python cover full-screen programs and keys.
        return;
    }
    let output = shell.run("vi note.txt").await;
    assert_eq!(output.end, StepEnd::Running);
    assert!(output.screen.is_some());
    shell.keys("i").await;
    let output = shell.text("hello").await;
    assert!(output.text.starts_with("hello\n~"), "{}", output.text);
    shell.keys("Escape").await;
    let output = shell.keys(": w q Enter").await;
    assert_eq!((output.end, output.screen), (exited(0), None));
    shell.check("cat note.txt", "hello\n", 0).await;
}

#[tokio::test]
async fn a_killed_full_screen_program_leaves_the_screen() {
    let mut shell = patient_shell().await;
    assert!(shell.run("seq 1 500 | less").await.screen.is_some());
    let output = shell.signal("KILL").await;
    assert_eq!((output.end, output.screen), (exited(137), None));
    let output = shell.run("echo fine").await;
    assert_eq!((output.text.as_str(), output.end), ("fine\n", exited(0)));
}

#[tokio::test]
async fn python_program_works_interactively() {
    let mut shell = shell().await;
    let output = shell.run("python3 -q").await;
    assert_eq!((output.text.as_str(), output.end), (">>> ", StepEnd::Running));
    let output = shell.run("print(6 * 7)").await;
    assert!(output.text.contains("\n42\n>>> "), "{output:?}");
    assert_eq!((output.end, output.has(StepNote::TypedIntoProgram)), (StepEnd::Running, true));
    let output = shell.run("import time; time.sleep(0.5); print('slept')").await;
    assert!(output.text.contains("\nslept\n>>> "), "{output:?}");
    assert_eq!(shell.keys("C-d").await.end, exited(0));
}

#[tokio::test]
async fn a_nested_shell_is_a_running_program() {
    let mut shell = shell().await;
    assert_eq!(shell.run("sh").await.end, StepEnd::Running);
    let output = shell.run("echo inner").await;
    assert!(output.text.contains("\ninner\n"), "{output:?}");
    assert_eq!(shell.run("exit 3").await.end, exited(3));
    assert_eq!(shell.run("bash --norc").await.end, StepEnd::Running);
    assert_eq!(shell.session.state(), ShellState::Running);
    assert!(shell.run("echo $((1+1))").await.text.contains("2\n"));
    assert_eq!(shell.keys("C-d").await.end, exited(0));
    shell.check("echo outer", "outer\n", 0).await;
}

#[tokio::test]
async fn completion_by_tab() {
    let mut shell = shell().await;
    shell.run("touch averylongname").await;
    shell.text("echo avery").await;
    let output = shell.keys("Tab Enter").await;
    assert!(output.text.ends_with("\naverylongname\n") && output.end == exited(0), "{output:?}");
}

#[tokio::test]
async fn the_screen_can_be_asked_for_at_any_time() {
    let mut shell = shell().await;
    shell.run("clear; echo shown").await;
    let screen = shell.session.screen().unwrap();
    assert_eq!((screen.text.lines().next(), screen.full_screen), (Some("shown"), false));
}
