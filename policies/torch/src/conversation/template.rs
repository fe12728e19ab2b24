//! The chat template: the markup around messages.
//!
//! A template is rendered with a placeholder for the content of every message, and the result is split at the placeholders.
//! The rest is markup, written by the template alone. Content never passes through the template, so it can neither be
//! mistaken for markup nor change it.
//!
//! I1. Every message's content appears exactly once and in order; a template that drops, repeats or changes one is
//! refused by name. I2. The stripping of content by a template is detected on loading and applied here. I3. A template that
//! exceeds the limits of steps or output is an error: it comes with a model and is not trusted.
//!
//! Source: `apply_chat_template` of Hugging Face transformers: the same variables, blocks trimmed, the methods of
//! Python's strings, `raise_exception`, a `tojson` that does not escape HTML. Deviations: (1) conditions on content
//! (`'</think>' in content`) see a placeholder and are false, so reasoning stays where it was sampled; (2) the calls of
//! assistant messages are not given to the template: a reply is what was sampled; (3) `strftime_now` is undefined;
//! (4) the keys inside a tool's parameters are sorted.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use clawrl_core::{Role, ToolSpec, spaced_json};
use clawrl_template::{Exceeded, Program, VALUE_BYTES, bound, bounded_methods};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Enumerator, Kwargs, Object, Serde};
use minijinja::{Environment, Error, ErrorKind, Value, context};
use serde::Serialize;

use super::error::ConversationError;
use super::trim::{ContentTrim, probe_text, trim_done};

/// Around the number of a message; private use, so no template contains them.
const OPEN: char = '\u{F0000}';
const CLOSE: char = '\u{F0001}';

const NAME: &str = "chat_template";

/// A piece of a rendered conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Written by the template.
    Markup(String),
    /// The content of the message of this index.
    Content(usize),
}

/// A checked chat template.
#[derive(Debug)]
pub(crate) struct ChatTemplate {
    environment: Environment<'static>,
    syntax: SyntaxConfig,
    source: String,
    special_tokens: BTreeMap<String, String>,
    trims: [ContentTrim; 4],
}

#[derive(Serialize)]
struct TemplateMessage {
    role: Role,
    content: String,
}

/// An object whose fields `tojson` writes in the order that models know.
#[derive(Debug)]
struct Ordered(Vec<(&'static str, Value)>);

impl Object for Ordered {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let key = key.as_str()?;
        self.0.iter().find(|(name, _)| *name == key).map(|(_, value)| value.clone())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.iter().map(|(name, _)| Value::from(*name)).collect())
    }
}

/// A tool in the form of OpenAI's interface.
fn template_tool(tool: &ToolSpec) -> Value {
    let function = Ordered(vec![
        ("name", Value::from(tool.name.as_str())),
        ("description", Value::from(tool.description.as_str())),
        ("parameters", Value::from(Serde(&tool.parameters))),
    ]);
    let fields = vec![("type", Value::from("function")), ("function", Value::from_object(function))];
    Value::from_object(Ordered(fields))
}

impl ChatTemplate {
    /// Takes a template and the special tokens it may name (`bos_token`, `eos_token`, ...).
    pub(crate) fn new(
        source: String,
        special_tokens: BTreeMap<String, String>,
    ) -> Result<Self, ConversationError> {
        if source.contains([OPEN, CLOSE]) {
            return Err(ConversationError::Template(
                "it contains characters of the private use planes".to_owned(),
            ));
        }
        let mut environment = Environment::new();
        let syntax =
            SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(template_error)?;
        bound(&mut environment);
        environment.set_unknown_method_callback(bounded_methods(
            minijinja_contrib::pycompat::unknown_method_callback,
        ));
        environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_filter("tojson", to_json);
        Program::template(NAME, &source, syntax.clone()).map_err(template_error)?;
        let mut template = Self { environment, syntax, source, special_tokens, trims: Default::default() };
        for role in ROLES {
            template.trims[role as usize] = template.probe(role)?;
        }
        Ok(template)
    }

    /// The stripping of a role's contents (I2).
    pub(crate) fn trim_of(&self, role: Role) -> ContentTrim {
        self.trims[role as usize]
    }

    /// The conversation up to where the next reply begins.
    pub(crate) fn render(&self, roles: &[Role], tools: &[ToolSpec]) -> Result<Vec<Piece>, ConversationError> {
        let contents = (0..roles.len()).map(stand_in).collect();
        let text = self.render_contents(roles, contents, tools)?;
        let pieces = cut(&text);
        let mut expected = 0..roles.len();
        for piece in &pieces {
            let Piece::Content(index) = *piece else { continue };
            match expected.next() {
                Some(next) if next == index => {}
                Some(next) if next < index => {
                    return Err(ConversationError::Content { role: roles[next], what: "drops" });
                }
                _ => {
                    return Err(ConversationError::Content {
                        role: roles[index],
                        what: "repeats or reorders",
                    });
                }
            }
        }
        match expected.next() {
            Some(missing) => Err(ConversationError::Content { role: roles[missing], what: "drops" }),
            None => Ok(pieces),
        }
    }

    fn render_contents(
        &self,
        roles: &[Role],
        contents: Vec<String>,
        tools: &[ToolSpec],
    ) -> Result<String, ConversationError> {
        let messages: Vec<TemplateMessage> =
            roles.iter().zip(contents).map(|(&role, content)| TemplateMessage { role, content }).collect();
        let tools = if tools.is_empty() {
            Value::from(())
        } else {
            tools.iter().map(template_tool).collect::<Value>()
        };
        let variables = context! {
            messages => Serde(&messages),
            tools,
            add_generation_prompt => true,
            ..Value::from(Serde(&self.special_tokens))
        };
        let template = Program::template(NAME, &self.source, self.syntax.clone()).map_err(template_error)?;
        template.render(&self.environment, variables).map_err(template_error)
    }

    /// Renders a short conversation whose content of this role has blanks around it, and detects which of them remain.
    fn probe(&self, role: Role) -> Result<ContentTrim, ConversationError> {
        let (roles, index): (&[Role], usize) = match role {
            Role::System => (&[Role::System, Role::User], 0),
            Role::User => (&[Role::User], 0),
            Role::Assistant => (&[Role::User, Role::Assistant, Role::User], 1),
            Role::Tool => (&[Role::User, Role::Assistant, Role::Tool], 2),
        };
        let plain: Vec<String> = (0..roles.len()).map(stand_in).collect();
        let mut probed = plain.clone();
        probed[index] = probe_text(&plain[index]);
        let rendered = |contents| match self.render_contents(roles, contents, &[]) {
            Err(error @ ConversationError::Endless(_)) => Err(error),
            // A template may refuse a role or this order of roles; it does so again when it is used.
            rendered => Ok(rendered.ok()),
        };
        let (Some(plain), Some(probed)) = (rendered(plain)?, rendered(probed)?) else {
            return Ok(ContentTrim::default());
        };
        match (around(&plain, &stand_in(index)), around(&probed, &stand_in(index))) {
            (Some(plain), Some(probed)) => {
                trim_done(plain, probed).ok_or(ConversationError::Content { role, what: "changes" })
            }
            // Dropped or repeated: as above.
            _ => Ok(ContentTrim::default()),
        }
    }
}

/// The text before and after the only occurrence.
fn around<'a>(text: &'a str, stand_in: &str) -> Option<(&'a str, &'a str)> {
    text.split_once(stand_in).filter(|(_, after)| !after.contains(stand_in))
}

/// In order of their numbers.
const ROLES: [Role; 4] = [Role::System, Role::User, Role::Assistant, Role::Tool];

fn stand_in(index: usize) -> String {
    format!("{OPEN}{index}{CLOSE}")
}

fn cut(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let markup = |text: &str, pieces: &mut Vec<Piece>| {
        if !text.is_empty() {
            pieces.push(Piece::Markup(text.to_owned()));
        }
    };
    let mut rest = text;
    while let Some((before, (number, after))) =
        rest.split_once(OPEN).and_then(|(before, rest)| Some((before, rest.split_once(CLOSE)?)))
    {
        markup(before, &mut pieces);
        // A placeholder without a number was broken by the template; its message counts as dropped.
        pieces.extend(number.parse().ok().map(Piece::Content));
        rest = after;
    }
    markup(rest, &mut pieces);
    pieces
}

/// As `json.dumps(value, ensure_ascii=False)` does, with `indent` as the only option.
fn to_json(value: Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    options.assert_all_used()?;
    let failed = |error: serde_json::Error| {
        if error.is_io() {
            Exceeded::large_value()
        } else {
            Error::new(ErrorKind::BadSerialization, error.to_string())
        }
    };
    let Some(width) = indent else { return spaced_json(&value).map(Value::from).map_err(failed) };
    let mut json = BoundedJson(Vec::new());
    let blanks = " ".repeat(width.min(VALUE_BYTES));
    let pretty = serde_json::ser::PrettyFormatter::with_indent(blanks.as_bytes());
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut json, pretty)).map_err(failed)?;
    Ok(Value::from(String::from_utf8_lossy(&json.0).into_owned()))
}

/// Up to [`VALUE_BYTES`]: indented, a value may be much larger than it is.
struct BoundedJson(Vec<u8>);

impl io::Write for BoundedJson {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > VALUE_BYTES {
            return Err(io::Error::other("too large"));
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn template_error(error: Error) -> ConversationError {
    let line = error.line().map(|line| format!(" (line {line})")).unwrap_or_default();
    if let Some(exceeded) = Exceeded::of(&error) {
        return ConversationError::Endless(format!("{exceeded}{line}"));
    }
    let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    ConversationError::Template(format!("{}{detail}{line}", error.kind()))
}
