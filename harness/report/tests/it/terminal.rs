//! The terminal of the page's replays, run by a JavaScript engine, against the emulator that the sandbox uses.

use std::num::NonZeroU16;

use proptest::prelude::*;
use rquickjs::{Context, Function, Runtime, Value};

const SCREEN: &str = include_str!("../../src/page/screen.js");
const TERMINAL: &str = include_str!("../../src/page/terminal.js");
const VIEWER: &str = include_str!("../../src/page/viewer.js");
/// Input of the script in a test.
const ASK: &str = r"
function shown(terminal) {
  const look = ({ fg, bg, bold, italic, underline, inverse }) =>
    [fg, bg, bold, italic, underline, inverse].map(String).join(' ');
  const rows = terminal.screen.cells.map(cells => cells.map(cell =>
    cell.width === 0 ? '<' : cell.text.trim() === '' ? '' : `${cell.text} ${look(cell.style)}`));
  return JSON.stringify({ row: terminal.screen.row, column: terminal.screen.column, rows });
}
function screen(columns, rows, pieces) {
  const terminal = new Terminal(columns, rows);
  for (const piece of JSON.parse(pieces)) terminal.write(piece);
  for (const line of terminal.lines()) for (const run of line) if (typeof run.text !== 'string') throw run;
  return shown(terminal);
}
function replayed(cast, moment) {
  const recording = new Recording(cast);
  recording.seek(recording.duration);
  recording.seek(moment);
  const text = recording.terminal.screen.cells.map(cells => cells.map(cell => cell.text || ' ').join('').trimEnd());
  return JSON.stringify({ text, duration: recording.duration, marker: recording.marker });
}
";

#[derive(Debug, PartialEq, serde::Deserialize)]
struct Shown {
    row: u16,
    column: u16,
    rows: Vec<Vec<String>>,
}

/// The script, ready to be asked.
struct Script {
    context: Context,
}

impl Script {
    fn new() -> Self {
        let context = Context::full(&Runtime::new().unwrap()).unwrap();
        context.with(|scope| {
            let _: Value<'_> = scope.eval(format!("{SCREEN}\n{TERMINAL}")).unwrap();
            let _: Value<'_> = scope.eval(ASK).unwrap();
        });
        Self { context }
    }

    fn screen(&self, (columns, rows): (u16, u16), pieces: &[&str]) -> Shown {
        let text: String = self.context.with(|scope| {
            let ask: Function<'_> = scope.globals().get("screen").unwrap();
            ask.call((columns, rows, serde_json::to_string(pieces).unwrap())).unwrap()
        });
        serde_json::from_str(&text).unwrap()
    }

    fn replayed(&self, cast: &str, moment: f64) -> serde_json::Value {
        let text: String = self.context.with(|scope| {
            let ask: Function<'_> = scope.globals().get("replayed").unwrap();
            ask.call((cast, moment)).unwrap()
        });
        serde_json::from_str(&text).unwrap()
    }
}

fn color(color: vt100::Color) -> String {
    match color {
        vt100::Color::Default => "null".to_owned(),
        vt100::Color::Idx(index) => index.to_string(),
        vt100::Color::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
    }
}

fn reference((columns, rows): (u16, u16), text: &str) -> Shown {
    let least = |size: u16| NonZeroU16::new(size).unwrap();
    let mut parser = vt100::Parser::new(least(rows), least(columns), 0);
    parser.process(text.as_bytes());
    let screen = parser.screen();
    let cell = |row, column| {
        let cell = screen.cell(row, column).unwrap();
        match cell.contents() {
            _ if cell.is_wide_continuation() => "<".to_owned(),
            blank if blank.trim().is_empty() => String::new(),
            text => format!(
                "{text} {} {} {} {} {} {}",
                color(cell.fgcolor()),
                color(cell.bgcolor()),
                cell.bold(),
                cell.italic(),
                cell.underline(),
                cell.inverse()
            ),
        }
    };
    let (row, column) = screen.cursor_position();
    let rows = (0..rows).map(|row| (0..columns).map(|column| cell(row, column)).collect()).collect();
    Shown { row, column, rows }
}

/// Something that a program would write, whole.
fn piece() -> impl Strategy<Value = String> {
    let small = || (0u16..9).prop_map(|number| number.to_string());
    let number = || prop_oneof![4 => small(), 1 => Just(String::new()), 1 => Just("999".to_owned())];
    let plain = "[a-z ]{1,9}";
    let wide = prop::sample::select(vec!["漢", "字!", "e\u{301}", "🦀", "─x"]).prop_map(str::to_owned);
    let control =
        prop::sample::select(vec!["\r", "\n", "\r\n", "\x08", "\t", "\x0b", "\x07"]).prop_map(str::to_owned);
    let escape = prop::sample::select(vec![
        "\x1b7",
        "\x1b8",
        "\x1bM",
        "\x1b=",
        "\x1b]0;title\x07",
        "\x1b]2;t\x1b\\",
        "\x1bP+q\x1b\\",
    ])
    .prop_map(str::to_owned);
    let one = (number(), prop::sample::select("@ABCDEFGJKLMPSTX`d".chars().collect::<Vec<_>>()))
        .prop_map(|(number, last)| format!("\x1b[{number}{last}"));
    let two = (number(), number(), prop::sample::select(vec!['H', 'f', 'r']))
        .prop_map(|(first, second, last)| format!("\x1b[{first};{second}{last}"));
    let mode = (prop::sample::select(vec![6, 25, 47, 1049, 2004]), prop::sample::select(vec!['h', 'l']))
        .prop_map(|(mode, last)| format!("\x1b[?{mode}{last}"));
    let look = prop::sample::select(vec![
        "",
        "0",
        "1",
        "3",
        "4",
        "7",
        "22",
        "23",
        "24",
        "27",
        "31",
        "42",
        "39",
        "49",
        "95",
        "103",
        "38;5;200",
        "48;5;17",
        "38;2;1;2;3",
        "48;2;255;0;9",
        "1;31;44",
        "0;7",
    ])
    .prop_map(|codes| format!("\x1b[{codes}m"));
    // More than a screenful is where the script stops and the emulator does not.
    let repeat = (1u16..4).prop_map(|count| format!("\x1b[{count}b"));
    prop_oneof![1 => repeat, 6 => plain, 2 => wide, 4 => control, 1 => escape, 5 => one, 2 => two, 1 => mode, 2 => look]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// T2 of the script.
    #[test]
    fn t2_player_matches_the_sandbox_emulator(
        pieces in prop::collection::vec(piece(), 1..40),
        columns in 2u16..14,
        rows in 1u16..7,
    ) {
        thread_local!(static SCRIPT: Script = Script::new());
        let text = pieces.concat();
        let whole = SCRIPT.with(|script| script.screen((columns, rows), &[&text]));
        prop_assert_eq!(&whole, &reference((columns, rows), &text), "{:?}", text);
        let parts: Vec<&str> = text.split_inclusive(|_: char| true).collect();
        prop_assert_eq!(SCRIPT.with(|script| script.screen((columns, rows), &parts)), whole);
    }

    /// T1 of the script: characters of every kind, in any order, with numbers of any size.
    #[test]
    fn t1_nothing_breaks_it(text in "(\\PC|[\\x00-\\x1f\\x7f]|\x1b\\[[?0-9;:]{0,12}[@-~]|\x1b[ -~]{1,2}){0,80}") {
        thread_local!(static SCRIPT: Script = Script::new());
        let shown = SCRIPT.with(|script| script.screen((7, 3), &[&text]));
        prop_assert_eq!(shown.rows.len(), 3);
        prop_assert!(shown.rows.iter().all(|row| row.len() == 7) && shown.row < 3 && shown.column <= 7);
    }
}

#[test]
fn player_handles_more_than_the_emulator() {
    let script = Script::new();
    let rows = |text: &str| -> Vec<String> {
        let rows = script.screen((4, 2), &[text]).rows;
        rows.iter().map(|row| row.iter().map(|cell| cell.split(' ').next().unwrap()).collect()).collect()
    };
    assert_eq!(rows("\x1b(0lqk\x1b(Blq"), ["┌─┐l", "q"]);
    assert_eq!(rows("\x1b)0\x0elx\x0flx"), ["┌│lx", ""]);
    assert_eq!(rows("ab\x1bDc\x1bEd"), ["c", "d"]);
    assert_eq!(rows("a\x1b[sbc\x1b[ud"), ["adc", ""]);
}

#[test]
fn recordings_are_replayed_to_any_moment() {
    let script = Script::new();
    let cast = "{\"version\":2,\"width\":6,\"height\":2}\n[0.5,\"o\",\"one\"]\nno event\n[9.5,\"o\",\"\\r\\ntwo\"]\n\
                [9.6,\"i\",\"x\"]\n[9.7,\"r\",\"4x3\"]\n[9.8,\"m\",\"recording stopped: size limit\"]\n";
    let at = |moment: f64| script.replayed(cast, moment);
    assert_eq!(at(0.2)["text"], serde_json::json!(["", ""]));
    assert_eq!(at(0.6)["text"], serde_json::json!(["one", ""]));
    // Nine seconds of thinking are one.
    assert_eq!(at(1.55)["text"], serde_json::json!(["one", "two"]));
    let end = at(99.0);
    assert_eq!(
        (&end["text"], &end["marker"]),
        (&serde_json::json!(["one", "two", ""]), &"recording stopped: size limit".into())
    );
    assert!((end["duration"].as_f64().unwrap() - 1.8).abs() < 1e-9);
    assert_eq!(script.replayed("", 1.0)["duration"], 0);
}

#[test]
fn scripts_parse_and_cannot_end_their_element() {
    let context = Context::full(&Runtime::new().unwrap()).unwrap();
    context.with(|scope| {
        // Compiled and not run: the viewer needs a document.
        let script = format!("{SCREEN}\n{TERMINAL}\nfunction unused() {{ {VIEWER} }}");
        let _: Value<'_> = scope.eval(script).unwrap();
    });
    for script in [SCREEN, TERMINAL, VIEWER] {
        for end in [
            "</script",
            "<script",
            "<!--",
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
        ] {
            assert!(!script.contains(end), "{end}");
        }
    }
}
