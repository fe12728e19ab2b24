//! Explains how a request without a recording differs from the recorded ones.
//!
//! I1. The nearest recorded request is the one that a person would compare with: of the same attempt if possible, otherwise
//! of the same task, then with the most equal messages at the same positions. I2. The first difference is reported, in the order in which
//! a model reads: settings, messages, tools. I3. Texts are cut around it, and cannot control a terminal.

use clawrl_core::{Message, Role, TaskId, ToolSpec, printable_line};
use serde_json::Value;

use crate::cassette::{Key, Reply};
use crate::model_request::{Piece, Pieces};

/// Characters of a text that are shown.
const SHOWN: usize = 100;

/// Characters that are shown before the first difference.
const BEFORE: usize = 24;

/// The first difference from the nearest of the replies, in words.
pub(crate) fn difference(replies: &[&Reply], task: &TaskId, key: &Key, asked: &Pieces) -> String {
    let Some(nearest) = replies.iter().max_by_key(|reply| nearness(reply, task, key, asked)) else {
        return "the cassette has no replies".to_owned();
    };
    let recorded = &nearest.pieces;
    let place = match (nearest.key.seed == key.seed, nearest.task == *task) {
        (true, _) => format!("turn {}", u64::from(nearest.turn) + 1),
        (false, true) => format!("turn {} of another attempt at the task", u64::from(nearest.turn) + 1),
        (false, false) => format!("turn {} of task {}", u64::from(nearest.turn) + 1, nearest.task),
    };
    let what = settings_differ(&recorded.settings, &asked.settings)
        .or_else(|| messages_differ(&recorded.messages, &asked.messages))
        .or_else(|| tools_differ(&recorded.tools, &asked.tools))
        .unwrap_or_else(|| keys_differ(&nearest.key, key));
    format!("the nearest recorded request is {place}: {what}")
}

/// Larger is nearer (I1).
fn nearness(reply: &Reply, task: &TaskId, key: &Key, asked: &Pieces) -> impl Ord {
    let recorded = &reply.pieces;
    let alike = recorded.messages.iter().zip(&asked.messages);
    let alike = alike.filter(|(one, other)| one.hash == other.hash).count();
    let longer = recorded.messages.len().abs_diff(asked.messages.len());
    (
        reply.key.seed == key.seed,
        reply.task == *task,
        alike,
        std::cmp::Reverse(longer),
        reply.key.asked == key.asked,
        // Among equals, the first.
        std::cmp::Reverse((reply.turn, reply.key.repeat)),
    )
}

fn settings_differ(recorded: &Piece<Value>, asked: &Piece<Value>) -> Option<String> {
    if recorded.hash == asked.hash {
        return None;
    }
    let empty = serde_json::Map::new();
    let members = |value: &Value| value.as_object().cloned().unwrap_or_else(|| empty.clone());
    let (old, new) = (members(&recorded.value), members(&asked.value));
    let name = old.keys().chain(new.keys()).find(|name| old.get(*name) != new.get(*name))?;
    let shown = |value: Option<&Value>| value.map_or("nothing".to_owned(), |value| short(&value.to_string()));
    Some(format!(
        "its setting `{}` was {} and is {}",
        printable_line(name, SHOWN),
        shown(old.get(name)),
        shown(new.get(name))
    ))
}

fn messages_differ(recorded: &[Piece<Message>], asked: &[Piece<Message>]) -> Option<String> {
    let place = recorded.iter().zip(asked).position(|(old, new)| old.hash != new.hash);
    let Some(place) = place else {
        let shorter = recorded.len().min(asked.len());
        return match (recorded.get(shorter), asked.get(shorter)) {
            (None, None) => None,
            (Some(old), _) => Some(format!(
                "it had {} messages and the request has {}; the next was {} of the {}",
                recorded.len(),
                asked.len(),
                short(&text_of(&old.value)),
                role(&old.value)
            )),
            (_, Some(new)) => Some(format!(
                "it had {} messages and the request has {}; the next is {} of the {}",
                recorded.len(),
                asked.len(),
                short(&text_of(&new.value)),
                role(&new.value)
            )),
        };
    };
    let (old, new) = (&recorded[place].value, &asked[place].value);
    let number = place + 1;
    if old.role != new.role {
        return Some(format!("message {number} was of the {} and is of the {}", role(old), role(new)));
    }
    let (old_text, new_text) = around(&text_of(old), &text_of(new));
    Some(format!("message {number}, of the {}, was {old_text} and is {new_text}", role(new)))
}

fn tools_differ(recorded: &[Piece<ToolSpec>], asked: &[Piece<ToolSpec>]) -> Option<String> {
    let hashes = |tools: &[Piece<ToolSpec>]| tools.iter().map(|tool| tool.hash).collect::<Vec<_>>();
    if hashes(recorded) == hashes(asked) {
        return None;
    }
    let named =
        |tools: &[Piece<ToolSpec>], name: &str| tools.iter().find(|tool| tool.value.name == name).cloned();
    for old in recorded {
        let name = printable_line(&old.value.name, SHOWN);
        let Some(new) = named(asked, &old.value.name) else {
            return Some(format!("the tool `{name}` is gone"));
        };
        if old.hash != new.hash {
            let (part, (was, is)) = if old.value.description == new.value.description {
                let text = |tool: &ToolSpec| tool.parameters.to_string();
                ("parameters of the tool", around(&text(&old.value), &text(&new.value)))
            } else {
                ("description of the tool", around(&old.value.description, &new.value.description))
            };
            return Some(format!("the {part} `{name}` was {was} and is {is}"));
        }
    }
    let added = asked.iter().find(|tool| named(recorded, &tool.value.name).is_none());
    Some(match added {
        Some(tool) => format!("the tool `{}` is new", printable_line(&tool.value.name, SHOWN)),
        None => "the tools are in another order".to_owned(),
    })
}

/// The requests are the same.
fn keys_differ(recorded: &Key, asked: &Key) -> String {
    if recorded.seed == asked.seed {
        format!(
            "it is the same request, made {} times by this attempt and {} times in the recording",
            u64::from(asked.repeat) + 1,
            u64::from(recorded.repeat) + 1
        )
    } else {
        "it is the same request under another seed: use the recorded `--seed`, `--group-size` and `--repeats`"
            .to_owned()
    }
}

fn role(message: &Message) -> &'static str {
    match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

/// All of a message that a model reads.
fn text_of(message: &Message) -> String {
    let mut text = message.text_with_images_named();
    for call in &message.tool_calls {
        text += &format!("[call of {} with {}, id {}]", call.name, call.arguments, call.id);
    }
    // Images have no text; only their names distinguish them.
    for part in &message.parts {
        if let clawrl_core::Part::Image { sha256, .. } = part {
            text += &format!("[image {}]", sha256.get(..12).unwrap_or(sha256));
        }
    }
    text += &message.tool_call_id.as_ref().map_or(String::new(), |id| format!("[result of {id}]"));
    text
}

/// Both texts, from shortly before their first difference.
fn around(old: &str, new: &str) -> (String, String) {
    let alike = old.chars().zip(new.chars()).take_while(|(one, other)| one == other).count();
    let from = alike.saturating_sub(BEFORE);
    let part = |text: &str| {
        let rest: String = text.chars().skip(from).collect();
        match (rest.is_empty(), from) {
            (true, _) => "nothing".to_owned(),
            (false, 0) => short(&rest),
            (false, _) => short(&format!("…{rest}")),
        }
    };
    (part(old), part(new))
}

fn short(text: &str) -> String {
    format!("`{}`", printable_line(text, SHOWN))
}

#[cfg(test)]
mod tests {
    use clawrl_core::{Action, ToolCall};
    use serde_json::json;

    use super::*;
    use crate::model_request::ModelRequest;

    fn tool(name: &str, description: &str) -> ToolSpec {
        let parameters = json!({ "type": "object" });
        ToolSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters,
            text_argument: None,
        }
    }

    fn asked() -> ModelRequest {
        ModelRequest {
            settings: json!({ "model": "m", "temperature": 0.5 }),
            messages: vec![
                Message::text(Role::System, "Be brief."),
                Message::text(Role::User, "Write the word stone into the file out.txt, and then submit."),
            ],
            tools: vec![tool("run", "Runs a command."), tool("submit", "Ends it.")],
        }
    }

    fn reply(task: &str, turn: u32, seed: u64, asked: ModelRequest) -> Reply {
        Reply::new(TaskId(task.to_owned()), turn, seed, 0, asked, Action::default())
    }

    /// The difference of a request with seed 7 of task `a` from one with the same seed.
    fn check(change: impl Fn(&mut ModelRequest), expected: &str) {
        let mut changed = asked();
        change(&mut changed);
        let replies = [reply("b", 0, 8, changed.clone()), reply("a", 2, 7, asked())];
        let pieces = Pieces::from(changed);
        let key = Key { asked: pieces.hash(), seed: 7, repeat: 0 };
        let said = difference(&replies.iter().collect::<Vec<_>>(), &TaskId("a".to_owned()), &key, &pieces);
        assert_eq!(said, format!("the nearest recorded request is turn 3: {expected}"));
    }

    #[test]
    fn i2_first_difference_is_reported() {
        check(
            |asked| asked.settings["temperature"] = json!(0.7),
            "its setting `temperature` was `0.5` and is `0.7`",
        );
        check(
            |asked| asked.settings["stop"] = json!(["x"]),
            "its setting `stop` was nothing and is `[\"x\"]`",
        );
        check(
            |asked| {
                asked.messages[1] = Message::text(
                    Role::User,
                    "Write the word stone into the file result.txt, and then submit.",
                );
            },
            "message 2, of the user, was `…ord stone into the file out.txt, and then submit.` and is \
             `…ord stone into the file result.txt, and then submit.`",
        );
        check(|asked| asked.messages[0].role = Role::User, "message 1 was of the system and is of the user");
        check(
            |asked| drop(asked.messages.pop()),
            "it had 2 messages and the request has 1; the next was `Write the word stone into the file out.txt, and \
             then submit.` of the user",
        );
        check(|asked| drop(asked.tools.remove(0)), "the tool `run` is gone");
        check(|asked| asked.tools.push(tool("look", "Looks.")), "the tool `look` is new");
        check(|asked| asked.tools.reverse(), "the tools are in another order");
        check(
            |asked| asked.tools[0].description = "Runs a program.".to_owned(),
            "the description of the tool `run` was `Runs a command.` and is `Runs a program.`",
        );
        check(
            |asked| asked.tools[1].parameters = json!({ "type": "array" }),
            "the parameters of the tool `submit` was `{\"type\":\"object\"}` and is `{\"type\":\"array\"}`",
        );
    }

    #[test]
    fn i2_calls_and_their_ids_are_text_too() {
        let with = |id: &str| {
            let mut asked = asked();
            let mut call = ToolCall::new("run", json!({ "command": "ls" }));
            call.id = id.to_owned();
            asked.messages.push(Message { tool_calls: vec![call], ..Message::text(Role::Assistant, "") });
            Pieces::from(asked)
        };
        let said = messages_differ(&with("c1").messages, &with("c2").messages).unwrap();
        assert!(said.contains("id c1]` and is") && said.contains("id c2]`"), "{said}");
    }

    #[test]
    fn i1_the_same_attempt_is_nearest_then_the_same_task() {
        let pieces = Pieces::from(asked());
        let check = |replies: &[Reply], key: Key, expected: &str| {
            let replies: Vec<&Reply> = replies.iter().collect();
            let said = difference(&replies, &TaskId("a".to_owned()), &key, &pieces);
            assert!(said.contains(expected), "{said}");
        };
        let key = Key { asked: pieces.hash(), seed: 7, repeat: 0 };
        check(&[], key, "has no replies");
        check(
            &[reply("a", 0, 8, asked())],
            key,
            "another attempt at the task: it is the same request under another seed",
        );
        check(&[reply("b", 0, 8, asked())], key, "turn 1 of task b");
        check(
            &[reply("a", 0, 7, asked())],
            Key { repeat: 2, ..key },
            "made 3 times by this attempt and 1 times in the recording",
        );
    }

    #[test]
    fn i3_texts_are_cut_and_do_nothing() {
        let (old, new) = around(&"x".repeat(5_000), &format!("{}\u{1b}[2J", "x".repeat(4_000)));
        assert!(old.chars().count() <= SHOWN + 2 && !new.contains('\u{1b}'), "{old} {new}");
        assert_eq!(around("same", "same and more"), ("`same`".to_owned(), "`same and more`".to_owned()));
        let (old, _) = around(&"é".repeat(60), &"é".repeat(61));
        assert_eq!(old, format!("`…{}`", "é".repeat(24)));
    }
}
