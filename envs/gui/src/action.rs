//! The agent's actions: tools with arguments, and equivalent lines of text for policies that write plain text.

use std::time::Duration;

use clawrl_core::{ToolCall, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::element_ref::{ElementRef, split_word};

/// Longest wait that an action may request.
const MAX_WAIT: Duration = Duration::from_secs(10);

const MAX_TYPED: usize = 10_000;

/// Pixels that one line of text scrolls.
const SCROLL_STEP: i64 = 400;

/// The tool that takes lines of text.
pub(crate) const ACT: &str = "act";

/// Description of that tool's lines, for the policy.
const LINES: &str = "Does what a line says: `click 3`, `double 3`, `right 3`, `hover 3`, `type 4 some text`, `append 4 more`, `enter 4 text` \
    (types and presses Enter), `press Ctrl+A`, `select 5 Medium`, `drag 3 7`, `scroll down`, `scroll 6 up`, `upload 8 \
    NAME`, `goto URL`, `back`, `tab 2`, `close 2`, `accept`, `accept TEXT`, `dismiss`, `wait 1`. In place of a number, \
    the role and name of an element do, as they are shown, or its name alone: `click button \"Send\"`, `type \"Name\" Ada`, \
    `drag listitem \"a\" listitem \"b\"`; of several, `click button \"Delete\" #2` is the second.";

const SCREENSHOT: &str = "screenshot";

pub(crate) const SUBMIT: &str = "submit";

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Target {
    Element(ElementRef),
    At(i64, i64),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    Click {
        target: Target,
        button: u64,
        presses: u32,
    },
    Hover(Target),
    Drag {
        from: Target,
        to: Target,
    },
    Scroll {
        element: Option<ElementRef>,
        right: i64,
        down: i64,
    },
    /// Types into an element, replacing its content unless it is appended; without an element, at the focus.
    Type {
        element: Option<ElementRef>,
        text: String,
        append: bool,
        enter: bool,
    },
    Press(Chord),
    Select {
        element: ElementRef,
        options: Vec<String>,
    },
    Upload {
        element: ElementRef,
        file: String,
    },
    Navigate(String),
    Back,
    /// Index in the list of tabs, from 1.
    SwitchTab(usize),
    CloseTab(usize),
    Dialog {
        accept: bool,
        text: Option<String>,
    },
    Wait(Duration),
    /// Only in tasks that show pictures on request.
    Screenshot,
    Submit(Option<String>),
}

/// Keys pressed together: some held, one or more pressed meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chord {
    pub(crate) held: Vec<char>,
    pub(crate) pressed: Vec<char>,
}

/// The offered tools, the one that takes lines first; `pictures` adds the one for pictures.
pub(crate) fn tools(pictures: bool) -> Vec<ToolSpec> {
    let element = json!({
        "anyOf": [{ "type": "integer", "minimum": 1 }, { "type": "string" }],
        "description": "Number of the element, as in [3], or its role and name as they are shown: `button \"Send\"`, \
                        `\"Send\"`; of several, `button \"Delete\" #2` is the second",
    });
    let x = json!({ "type": "integer", "description": "Pixels from the left of the page's window" });
    let y = json!({ "type": "integer", "description": "Pixels from its top" });
    let place = json!({ "element": element, "x": x, "y": y });
    let with = |base: &Value, more: Value| {
        let mut all = base.clone();
        if let (Value::Object(all), Value::Object(more)) = (&mut all, more) {
            all.extend(more);
        }
        all
    };
    let tool = |name: &str, description: &str, properties: Value, required: &[&str]| ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }),
        text_argument: (name == ACT).then(|| "line".to_owned()),
    };
    let button = json!({ "type": "string", "enum": ["left", "middle", "right"] });
    let lines = if pictures {
        format!("{LINES} `screenshot` shows a picture of the page.")
    } else {
        LINES.to_owned()
    };
    let mut all = vec![
        tool(ACT, &lines, json!({ "line": { "type": "string" } }), &["line"]),
        tool(
            "click",
            "Clicks an element, or a point.",
            with(
                &place,
                json!({ "button": button, "count": { "type": "integer", "minimum": 1, "maximum": 3 } }),
            ),
            &[],
        ),
        tool("hover", "Moves the pointer to an element, or a point.", place.clone(), &[]),
        tool(
            "drag",
            "Presses the button at one place and releases it at another; each is an element or a point.",
            json!({
                "from": element, "from_x": x, "from_y": y,
                "to": element, "to_x": x, "to_y": y,
            }),
            &[],
        ),
        tool(
            "scroll",
            "Scrolls an element, or the page, by pixels.",
            json!({ "element": element, "down": { "type": "integer" }, "right": { "type": "integer" } }),
            &[],
        ),
        tool(
            "type",
            "Types into an element in place of what it holds, or after it; without an element, wherever the focus is.",
            json!({
                "element": element,
                "text": { "type": "string" },
                "append": { "type": "boolean" },
                "enter": { "type": "boolean", "description": "Press Enter afterwards" },
            }),
            &["text"],
        ),
        tool(
            "press",
            "Presses keys together: `Enter`, `Tab`, `Escape`, `ArrowDown`, `Ctrl+A`, `Shift+Tab`, `a`.",
            json!({ "keys": { "type": "string" } }),
            &["keys"],
        ),
        tool(
            "select",
            "Chooses options of a list by their labels.",
            json!({ "element": element, "options": { "type": "array", "items": { "type": "string" }, "minItems": 1 } }),
            &["element", "options"],
        ),
        tool(
            "upload",
            "Gives one of the task's files to a file field.",
            json!({ "element": element, "file": { "type": "string" } }),
            &["element", "file"],
        ),
        tool("navigate", "Opens an address.", json!({ "url": { "type": "string" } }), &["url"]),
        tool("back", "Goes back to the page before.", json!({}), &[]),
        tool(
            "tab",
            "Goes to a tab, or closes it, by its place in the list of tabs.",
            json!({ "tab": { "type": "integer", "minimum": 1 }, "close": { "type": "boolean" } }),
            &["tab"],
        ),
        tool(
            "dialog",
            "Answers a dialog that is open.",
            json!({ "accept": { "type": "boolean" }, "text": { "type": "string" } }),
            &["accept"],
        ),
        tool(
            "wait",
            "Waits for some seconds, at most 10.",
            json!({ "seconds": { "type": "number", "minimum": 0, "maximum": 10 } }),
            &["seconds"],
        ),
    ];
    if pictures {
        all.push(tool(SCREENSHOT, "Shows a picture of the page as it is.", json!({}), &[]));
    }
    all.push(tool(SUBMIT, "Ends the task.", json!({ "answer": { "type": "string" } }), &[]));
    all
}

/// Parses a call.
///
/// # Errors
/// A sentence for the agent.
pub(crate) fn parse(call: &ToolCall) -> Result<Action, String> {
    fn of<T: serde::de::DeserializeOwned>(call: &ToolCall) -> Result<T, String> {
        serde_json::from_value(call.arguments.clone()).map_err(|error| format!("`{}`: {error}", call.name))
    }
    match call.name.as_str() {
        ACT => line(call.str_argument("line").ok_or("`act` takes a `line`")?),
        "click" => {
            let Click { element, x, y, button, count } = of(call)?;
            let button = match button.as_deref() {
                None | Some("left") => 0,
                Some("middle") => 1,
                Some("right") => 2,
                Some(other) => return Err(format!("there is no button `{other}`")),
            };
            let presses = count.unwrap_or(1);
            if !(1..=3).contains(&presses) {
                return Err("`count` is 1, 2 or 3".to_owned());
            }
            Ok(Action::Click { target: target(element, x, y)?, button, presses })
        }
        "hover" => {
            let Click { element, x, y, .. } = of(call)?;
            Ok(Action::Hover(target(element, x, y)?))
        }
        "drag" => {
            let Drag { from, from_x, from_y, to, to_x, to_y } = of(call)?;
            Ok(Action::Drag { from: target(from, from_x, from_y)?, to: target(to, to_x, to_y)? })
        }
        "scroll" => {
            let Scroll { element, down, right } = of(call)?;
            Ok(Action::Scroll { element, right: right.unwrap_or_default(), down: down.unwrap_or_default() })
        }
        "type" => {
            let Type { element, text, append, enter } = of(call)?;
            typed(element, &text, append.unwrap_or_default(), enter.unwrap_or_default())
        }
        "press" => chord(call.str_argument("keys").ok_or("`press` takes `keys`")?).map(Action::Press),
        "select" => {
            let Select { element, options } = of(call)?;
            if options.is_empty() {
                return Err("`select` takes at least one option".to_owned());
            }
            Ok(Action::Select { element, options })
        }
        "upload" => {
            let Upload { element, file } = of(call)?;
            Ok(Action::Upload { element, file })
        }
        "navigate" => {
            Ok(Action::Navigate(call.str_argument("url").ok_or("`navigate` takes a `url`")?.to_owned()))
        }
        "back" => Ok(Action::Back),
        "tab" => {
            let Tab { tab, close } = of(call)?;
            Ok(if close.unwrap_or_default() { Action::CloseTab(tab) } else { Action::SwitchTab(tab) })
        }
        "dialog" => {
            let Dialog { accept, text } = of(call)?;
            Ok(Action::Dialog { accept, text })
        }
        "wait" => {
            let Wait { seconds } = of(call)?;
            waiting(seconds)
        }
        SCREENSHOT => Ok(Action::Screenshot),
        SUBMIT => Ok(Action::Submit(call.str_argument("answer").map(str::to_owned))),
        other => Err(format!("there is no tool `{other}`")),
    }
}

#[derive(Deserialize)]
struct Click {
    element: Option<ElementRef>,
    x: Option<i64>,
    y: Option<i64>,
    button: Option<String>,
    count: Option<u32>,
}

#[derive(Deserialize)]
struct Drag {
    from: Option<ElementRef>,
    from_x: Option<i64>,
    from_y: Option<i64>,
    to: Option<ElementRef>,
    to_x: Option<i64>,
    to_y: Option<i64>,
}

#[derive(Deserialize)]
struct Scroll {
    element: Option<ElementRef>,
    down: Option<i64>,
    right: Option<i64>,
}

#[derive(Deserialize)]
struct Type {
    element: Option<ElementRef>,
    text: String,
    append: Option<bool>,
    enter: Option<bool>,
}

#[derive(Deserialize)]
struct Select {
    element: ElementRef,
    options: Vec<String>,
}

#[derive(Deserialize)]
struct Upload {
    element: ElementRef,
    file: String,
}

#[derive(Deserialize)]
struct Tab {
    tab: usize,
    close: Option<bool>,
}

#[derive(Deserialize)]
struct Dialog {
    accept: bool,
    text: Option<String>,
}

#[derive(Deserialize)]
struct Wait {
    seconds: f64,
}

fn target(element: Option<ElementRef>, x: Option<i64>, y: Option<i64>) -> Result<Target, String> {
    match (element, x, y) {
        (Some(element), None, None) => Ok(Target::Element(element)),
        (None, Some(x), Some(y)) => Ok(Target::At(x, y)),
        _ => {
            Err("name an element by its number or its role and name, or a point by both coordinates"
                .to_owned())
        }
    }
}

fn typed(element: Option<ElementRef>, text: &str, append: bool, enter: bool) -> Result<Action, String> {
    if text.chars().count() > MAX_TYPED {
        return Err(format!("at most {MAX_TYPED} characters are typed at once"));
    }
    // Code points that stand for keys in the protocol are not text.
    if let Some(odd) = text.chars().find(|c| is_key(*c)) {
        return Err(format!("U+{:04X} is not text; use `press` for keys", u32::from(odd)));
    }
    Ok(Action::Type { element, text: text.to_owned(), append, enter })
}

fn is_key(c: char) -> bool {
    ('\u{e000}'..='\u{e05d}').contains(&c)
}

fn waiting(seconds: f64) -> Result<Action, String> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(wait) if wait <= MAX_WAIT => Ok(Action::Wait(wait)),
        _ => Err(format!("waits are between 0 and {} s", MAX_WAIT.as_secs())),
    }
}

/// Parses a line, as [`ACT`] takes it.
fn line(line: &str) -> Result<Action, String> {
    let line = line.trim();
    let (verb, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim_start();
    let wrong =
        |wanted: String| format!("`{verb}` takes {wanted}, as in `{verb} 3` or `{verb} button \"Send\"`");
    // The element, and the rest.
    let with_text = || {
        let (element, text) = ElementRef::read(rest).map_err(wrong)?;
        Ok::<_, String>((element, text.to_owned()))
    };
    let click =
        |button, presses| Ok(Action::Click { target: only(place(verb, rest)?, verb)?, button, presses });
    match verb.to_ascii_lowercase().as_str() {
        "click" => click(0, 1),
        "double" => click(0, 2),
        "right" => click(2, 1),
        "hover" => only(place(verb, rest)?, verb).map(Action::Hover),
        "type" => with_text().and_then(|(number, text)| typed(Some(number), &text, false, false)),
        "append" => with_text().and_then(|(number, text)| typed(Some(number), &text, true, false)),
        "enter" => with_text().and_then(|(number, text)| typed(Some(number), &text, false, true)),
        "press" => chord(rest).map(Action::Press),
        "select" => {
            let (element, text) = with_text()?;
            let options: Vec<String> = text.split('|').map(|option| option.trim().to_owned()).collect();
            match options.iter().any(String::is_empty) {
                true => Err("`select` takes an element and a label, as in `select 5 Medium`".to_owned()),
                false => Ok(Action::Select { element, options }),
            }
        }
        "drag" => {
            let (from, rest) = place(verb, rest)?;
            match rest.trim_start() {
                "" => Err("`drag` takes two places, as in `drag 3 7`".to_owned()),
                rest => Ok(Action::Drag { from, to: only(place(verb, rest)?, verb)? }),
            }
        }
        "scroll" => {
            let (element, way) = match rest.contains(char::is_whitespace) {
                true => with_text().map(|(element, way)| (Some(element), way))?,
                false => (None, rest.to_owned()),
            };
            let (right, down) = match way.trim() {
                "down" => (0, SCROLL_STEP),
                "up" => (0, -SCROLL_STEP),
                "right" => (SCROLL_STEP, 0),
                "left" => (-SCROLL_STEP, 0),
                _ => return Err("`scroll` takes `down`, `up`, `left` or `right`".to_owned()),
            };
            Ok(Action::Scroll { element, right, down })
        }
        "upload" => with_text().map(|(element, file)| Action::Upload { element, file }),
        "goto" if !rest.is_empty() => Ok(Action::Navigate(rest.to_owned())),
        "back" => Ok(Action::Back),
        "tab" => rest.parse().map(Action::SwitchTab).map_err(|_| "`tab` takes a number".to_owned()),
        "close" => rest.parse().map(Action::CloseTab).map_err(|_| "`close` takes a number".to_owned()),
        "accept" => {
            Ok(Action::Dialog { accept: true, text: Some(rest.to_owned()).filter(|text| !text.is_empty()) })
        }
        "dismiss" => Ok(Action::Dialog { accept: false, text: None }),
        "wait" => rest.parse().map_err(|_| "`wait` takes seconds".to_owned()).and_then(waiting),
        SCREENSHOT if rest.is_empty() => Ok(Action::Screenshot),
        SUBMIT => Ok(Action::Submit(Some(rest.to_owned()).filter(|text| !text.is_empty()))),
        "" => Err("the line is empty".to_owned()),
        other => Err(format!("`{other}` is nothing that can be done; see the tool `{ACT}` for what can")),
    }
}

/// Parses a point, which starts with a number and contains a comma, or an element; returns the rest as well.
fn place<'a>(verb: &str, text: &'a str) -> Result<(Target, &'a str), String> {
    let (word, rest) = split_word(text);
    match word.split_once(',').filter(|_| word.starts_with(|c: char| c.is_ascii_digit() || c == '-')) {
        Some((x, y)) => match (x.parse(), y.parse()) {
            (Ok(x), Ok(y)) => Ok((Target::At(x, y), rest)),
            _ => Err(format!("`{word}` is not a point; `{verb} 40,60` is one")),
        },
        None => {
            let wrong =
                |wanted| format!("`{verb}` takes {wanted}, as in `{verb} 3` or `{verb} button \"Send\"`");
            ElementRef::read(text).map(|(element, rest)| (Target::Element(element), rest)).map_err(wrong)
        }
    }
}

/// A target without a rest.
fn only((target, rest): (Target, &str), verb: &str) -> Result<Target, String> {
    match rest.trim_start() {
        "" => Ok(target),
        rest => Err(format!("`{verb}` takes no more than a place: `{rest}` is too much")),
    }
}

/// Keys by name, as browsers name them, and the protocol's code points.
const KEYS: &[(&str, char)] = &[
    ("enter", '\u{e007}'),
    ("return", '\u{e007}'),
    ("tab", '\u{e004}'),
    ("escape", '\u{e00c}'),
    ("esc", '\u{e00c}'),
    ("backspace", '\u{e003}'),
    ("delete", '\u{e017}'),
    ("insert", '\u{e016}'),
    ("space", ' '),
    ("home", '\u{e011}'),
    ("end", '\u{e010}'),
    ("pageup", '\u{e00e}'),
    ("pagedown", '\u{e00f}'),
    ("arrowleft", '\u{e012}'),
    ("arrowup", '\u{e013}'),
    ("arrowright", '\u{e014}'),
    ("arrowdown", '\u{e015}'),
    ("left", '\u{e012}'),
    ("up", '\u{e013}'),
    ("right", '\u{e014}'),
    ("down", '\u{e015}'),
    ("f1", '\u{e031}'),
    ("f2", '\u{e032}'),
    ("f5", '\u{e035}'),
];

const MODIFIERS: &[(&str, char)] = &[
    ("ctrl", '\u{e009}'),
    ("control", '\u{e009}'),
    ("shift", '\u{e008}'),
    ("alt", '\u{e00a}'),
    ("meta", '\u{e03d}'),
    ("cmd", '\u{e03d}'),
];

pub(crate) const ENTER: char = '\u{e007}';

pub(crate) const DELETE: char = '\u{e017}';

fn chord(text: &str) -> Result<Chord, String> {
    let named = |list: &[(&str, char)], word: &str| {
        let word = word.to_ascii_lowercase();
        list.iter().find(|(name, _)| *name == word).map(|(_, key)| *key)
    };
    let unknown =
        |word: &str| format!("there is no key `{word}`; keys are named as in `Enter`, `ArrowDown`, `Ctrl+A`");
    // A plus is a key, too.
    let (held, last) = match text.trim().strip_suffix('+') {
        Some(rest) => (rest.trim_end_matches('+'), "+"),
        None => text.trim().rsplit_once('+').unwrap_or(("", text.trim())),
    };
    let held = held.split('+').filter(|word| !word.is_empty());
    let held = held
        .map(|word| named(MODIFIERS, word).ok_or_else(|| unknown(word)))
        .collect::<Result<Vec<_>, _>>()?;
    let mut characters = last.chars();
    let pressed = match (characters.next(), characters.next()) {
        (Some(only), None) if !is_key(only) => only,
        _ => named(KEYS, last).ok_or_else(|| unknown(last))?,
    };
    // With a modifier, the letter is that of the key, not the capital.
    let pressed = if held.is_empty() { pressed } else { pressed.to_ascii_lowercase() };
    Ok(Chord { held, pressed: vec![pressed] })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Action, String> {
        parse(&ToolCall::new(ACT, json!({ "line": text })))
    }

    fn number(number: u32) -> ElementRef {
        ElementRef::Number(number)
    }

    fn named(role: &str, name: &str) -> ElementRef {
        ElementRef::Words { role: Some(role.to_owned()), name: name.to_owned(), place: None }
    }

    #[test]
    fn lines_are_read() {
        let check = |text: &str, expected: Action| assert_eq!(read(text), Ok(expected), "{text}");
        let click = |element, button, presses| Action::Click {
            target: Target::Element(number(element)),
            button,
            presses,
        };
        check("click 3", click(3, 0, 1));
        check("  click [3] ", click(3, 0, 1));
        check("double 3", click(3, 0, 2));
        check("right 3", click(3, 2, 1));
        check("click 4,5", Action::Click { target: Target::At(4, 5), button: 0, presses: 1 });
        let typed = |text: &str, append, enter| Action::Type {
            element: Some(number(4)),
            text: text.to_owned(),
            append,
            enter,
        };
        check("type 4 two  words", typed("two  words", false, false));
        check("type 4", typed("", false, false));
        check("append 4 x", typed("x", true, false));
        check("enter 4 x", typed("x", false, true));
        check(
            "select 5 Extra large",
            Action::Select { element: number(5), options: vec!["Extra large".to_owned()] },
        );
        check(
            "select 5 A | B",
            Action::Select { element: number(5), options: vec!["A".to_owned(), "B".to_owned()] },
        );
        check("drag 3 7", Action::Drag { from: Target::Element(number(3)), to: Target::Element(number(7)) });
        check("drag 3 10,-4", Action::Drag { from: Target::Element(number(3)), to: Target::At(10, -4) });
        check("scroll up", Action::Scroll { element: None, right: 0, down: -400 });
        check("scroll 6 right", Action::Scroll { element: Some(number(6)), right: 400, down: 0 });
        check("goto http://a.localhost/", Action::Navigate("http://a.localhost/".to_owned()));
        check("accept", Action::Dialog { accept: true, text: None });
        check("accept Ada", Action::Dialog { accept: true, text: Some("Ada".to_owned()) });
        check("screenshot", Action::Screenshot);
        check("wait 0.5", Action::Wait(Duration::from_millis(500)));
        check("submit 42 pieces", Action::Submit(Some("42 pieces".to_owned())));
    }

    #[test]
    fn lines_take_roles_and_names() {
        let check = |text: &str, expected: Action| assert_eq!(read(text), Ok(expected), "{text}");
        let click = |element| Action::Click { target: Target::Element(element), button: 0, presses: 1 };
        let alone = ElementRef::Words { role: None, name: "Send".to_owned(), place: None };
        let second =
            ElementRef::Words { role: Some("button".to_owned()), name: "Delete".to_owned(), place: Some(2) };
        check("click button \"Send\"", click(named("button", "Send")));
        check("click \"Send\"", click(alone));
        check("click \"4,5\"", click(ElementRef::Words { role: None, name: "4,5".to_owned(), place: None }));
        check("click button \"Delete\" #2", click(second));
        check("hover link \"a b\"", Action::Hover(Target::Element(named("link", "a b"))));
        let field = || Some(named("textbox", "Name"));
        let text = "Ada  \"the\" Lovelace".to_owned();
        check(
            "type textbox \"Name\" Ada  \"the\" Lovelace",
            Action::Type { element: field(), text, append: false, enter: false },
        );
        check(
            "enter textbox \"Name\"",
            Action::Type { element: field(), text: String::new(), append: false, enter: true },
        );
        check(
            "select combobox \"Size\" Large | XL",
            Action::Select {
                element: named("combobox", "Size"),
                options: vec!["Large".to_owned(), "XL".to_owned()],
            },
        );
        let item = |name| Target::Element(named("listitem", name));
        check("drag listitem \"a\" listitem \"b\"", Action::Drag { from: item("a"), to: item("b") });
        check("drag 10,4 listitem \"b\"", Action::Drag { from: Target::At(10, 4), to: item("b") });
        check(
            "scroll list \"Mails\" down",
            Action::Scroll { element: Some(named("list", "Mails")), right: 0, down: 400 },
        );
        check(
            "upload button \"Photo\" cat.png",
            Action::Upload { element: named("button", "Photo"), file: "cat.png".to_owned() },
        );
    }

    #[test]
    fn invalid_action_is_explained() {
        let check = |text: &str, part: &str| {
            let why = read(text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        };
        check("", "empty");
        check("jump 3", "`jump`");
        check("click", "number of an element");
        check("click x", "number of an element");
        check("click Send", "role and name");
        check("click button \"Send\" twice", "`twice` is too much");
        check("click button \"Send", "quotation mark");
        check("click 4,y", "not a point");
        check("drag 3 7 9", "`9` is too much");
        check("drag listitem \"a\"", "two places");
        check("drag 3", "two places");
        check("select 5", "label");
        check("scroll sideways", "`down`");
        check("wait 100", "between 0 and 10");
        check("wait -1", "between 0 and 10");
        check("press Hyper+X", "no key `Hyper`");
        check("press Entr", "no key `Entr`");
        check("type 4 \u{e007}", "U+E007");
        check("goto", "nothing that can be done");
    }

    #[test]
    fn keys_are_pressed_together() {
        let check = |text: &str, held: &[char], pressed: char| {
            assert_eq!(chord(text), Ok(Chord { held: held.to_vec(), pressed: vec![pressed] }), "{text}");
        };
        check("Enter", &[], ENTER);
        check("a", &[], 'a');
        check("A", &[], 'A');
        check("Ctrl+A", &['\u{e009}'], 'a');
        check("ctrl+shift+Tab", &['\u{e009}', '\u{e008}'], '\u{e004}');
        check("+", &[], '+');
        check("Ctrl++", &['\u{e009}'], '+');
    }

    #[test]
    fn tools_accept_their_schemas() {
        let call = |name: &str, arguments: Value| parse(&ToolCall::new(name, arguments));
        assert!(call("click", json!({ "element": 3 })).is_ok());
        assert!(call("click", json!({ "x": 3 })).unwrap_err().contains("both coordinates"));
        let send = Action::Click { target: Target::Element(named("button", "Send")), button: 0, presses: 1 };
        assert_eq!(call("click", json!({ "element": " button \"Send\"" })), Ok(send));
        assert!(
            call("click", json!({ "element": "button \"Send\" now" }))
                .unwrap_err()
                .contains("names no element")
        );
        assert!(call("click", json!({ "element": "button" })).unwrap_err().contains("role and name"));
        assert!(call("click", json!({ "element": true })).unwrap_err().contains("an element is a number"));
        assert!(call("drag", json!({ "from": "\"a\"", "to": 4 })).is_ok());
        assert!(call("click", json!({ "element": 3, "count": 9 })).is_err());
        assert!(call("type", json!({ "element": "3", "text": "x" })).unwrap_err().contains("`type`"));
        assert!(call("select", json!({ "element": 3, "options": [] })).is_err());
        assert!(call("fly", json!({})).unwrap_err().contains("no tool `fly`"));
        assert!(
            !tools(false).iter().any(|tool| tool.name == SCREENSHOT || tool.description.contains(SCREENSHOT))
        );
        assert!(call(SCREENSHOT, json!({})).is_ok());
        let names: Vec<String> = tools(true).into_iter().map(|tool| tool.name).collect();
        assert!(names.iter().any(|name| name == SCREENSHOT));
        assert_eq!(names.iter().filter(|name| *name == ACT).count(), 1);
    }
}
