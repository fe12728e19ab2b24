//! Output of any kind and amount.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use clawrl_sandbox::{CastConfig, ShellConfig, StepEnd, StepNote};

use crate::shell_fixture::{config, exited, shell, shell_with};

#[tokio::test]
async fn a_hundred_megabytes_are_read_and_cut() {
    let mut shell = shell().await;
    let start = Instant::now();
    let output = shell.run("yes 'one line of the great flood' | head -c 100000000").await;
    assert_eq!(output.end, exited(0));
    assert!(output.text.chars().count() <= 4_000);
    assert!(output.text.starts_with("one line of the great flood\none"));
    let (head, rest) = output.text.split_once("\n[... ").unwrap();
    let (counts, tail) = rest.split_once(" ...]\n").unwrap();
    let left_out: usize = counts.split(' ').next().unwrap().parse().unwrap();
    assert_eq!(head.len() + left_out + tail.len(), 100_000_000);
    assert!(output.full_text.unwrap().len() <= 1024 * 1024 + 100);
    assert_eq!(output.notes, [StepNote::OutputCut]);
    assert!(start.elapsed() < Duration::from_secs(40));
    shell.check("echo fine", "fine\n", 0).await;
}

#[tokio::test]
async fn endless_output_stops_at_the_deadline() {
    let mut shell = shell().await;
    let output = shell.run_for("yes", Duration::from_millis(300)).await;
    assert_eq!(output.end, StepEnd::TimedOut { shell_lost: false });
    assert!(output.text.starts_with("y\ny\n"));
    shell.check("echo fine", "fine\n", 0).await;
}

#[tokio::test]
async fn output_without_line_ends() {
    let mut shell = shell().await;
    let output = shell.run("head -c 3000000 /dev/zero | tr '\\0' x").await;
    assert_eq!(output.end, exited(0));
    let x = output.text.bytes().filter(|&byte| byte == b'x').count();
    assert!(output.text.starts_with("xxx") && output.text.ends_with("xxx") && x > 3_900, "{}", output.text);
    assert!(output.text.contains(" characters with 0 line ends left out"));
}

#[tokio::test]
async fn binary_output() {
    let mut shell = shell().await;
    let output = shell.run("head -c 200000 /dev/urandom").await;
    assert_eq!(output.end, exited(0), "{output:?}");
    assert!(output.has(StepNote::InvalidUtf8));
    shell.check("printf 'a\\0b\\n'", "ab\n", 0).await;
    let output = shell.run("printf 'a\\377b\\303'").await;
    assert_eq!((output.text.as_str(), output.notes), ("a\u{fffd}b\u{fffd}", vec![StepNote::InvalidUtf8]));
    shell.check("printf '\\033]0;never ended'", "", 0).await;
    shell.check("printf '\\033P never ended'", "", 0).await;
    shell.check("printf '\\033['", "", 0).await;
    shell.check("echo é€𝄞", "é€𝄞\n", 0).await;
}

#[tokio::test]
async fn progress_bars_leave_their_last_state() {
    let mut shell = shell().await;
    shell.check("for i in 1 2 3; do printf '\\r%d0%%' $i; done; echo", "30%\n", 0).await;
    shell.check("printf '\\033[31mred\\033[m\\n'; printf 'ab\\bc\\n'", "red\nac\n", 0).await;
}

#[tokio::test]
async fn long_commands_arrive_whole() {
    let mut shell = shell().await;
    for length in [5_000, 100_000] {
        let word = "w".repeat(length);
        shell.check(&format!("x={word}; echo ${{#x}}"), &format!("{length}\n"), 0).await;
    }
    let mut script = String::from("cat > long.txt <<'EOF'\n");
    for line in 0..1_000 {
        writeln!(script, "{line}\t'quoted' \"text\" $(x) \\ é").unwrap();
    }
    shell.check(&format!("{script}EOF\nwc -l < long.txt"), "1000\n", 0).await;
    let written = std::fs::read_to_string(shell.terminal.home.path().join("long.txt")).unwrap();
    assert_eq!(written, script.split_once('\n').unwrap().1);
}

#[tokio::test]
async fn narrow_and_wide_terminals() {
    for columns in [4, 20, 300] {
        let mut shell = shell_with(ShellConfig { size: (columns, 10), ..config() }).await;
        shell
            .check(
                "echo a line that is longer than some terminals are wide",
                "a line that is longer than some terminals are wide\n",
                0,
            )
            .await;
        shell.check("echo a\necho b", "a\nb\n", 0).await;
        shell.session.resize((columns + 3, 11)).unwrap();
        let output = shell.run("stty size").await;
        assert!(output.text.ends_with(&format!("11 {}\n", columns + 3)), "{output:?}");
    }
}

#[tokio::test]
async fn unread_input_does_not_block() {
    let mut shell = shell_with(ShellConfig { patience: Duration::from_millis(300), ..config() }).await;
    assert_eq!(shell.run("stty raw; sleep 30").await.end, StepEnd::Running);
    let output = shell.text(&"z".repeat(1_000_000)).await;
    assert_eq!((output.end, output.has(StepNote::InputUnread)), (StepEnd::Running, true));
    assert!(matches!(shell.signal("KILL").await.end, StepEnd::Completed { .. } | StepEnd::Incomplete));
}

#[tokio::test]
async fn background_flood_does_not_delay_step_end() {
    let mut shell = shell().await;
    shell.run("yes flood &").await;
    let output = shell.run("kill %1; wait; echo dry").await;
    assert!(matches!(output.end, StepEnd::Completed { .. }), "{:?}", output.end);
    let output = shell.run("echo fine").await;
    assert!(output.text.ends_with("fine\n"), "{output:?}");
}

#[tokio::test]
async fn sessions_are_recorded() {
    let cast = CastConfig { cap_bytes: 100_000, input: true };
    let mut shell = shell_with(ShellConfig { cast, ..config() }).await;
    shell.run("echo seen").await;
    let text = shell.session.cast();
    let mut lines = text.lines();
    let header: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(
        (&header["version"], &header["width"], &header["height"]),
        (&2.into(), &80.into(), &24.into())
    );
    let events: Vec<(f64, String, String)> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.is_sorted_by(|a, b| a.0 <= b.0));
    let all = |code: &str| {
        events.iter().filter(|event| event.1 == code).map(|event| event.2.as_str()).collect::<String>()
    };
    assert!(all("o").contains("seen\r\n"));
    assert!(all("i").contains("echo seen"));
}
