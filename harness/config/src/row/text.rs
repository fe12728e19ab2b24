//! Strings of a row that may be templates, as visitors see them.

use serde_json::Value as Json;

use crate::file::Text;
use crate::source::Span;

/// Sees every string that may be a template, with its place.
pub(super) type Visit<'v, 's> = dyn FnMut(&'s str, Span) + 'v;

/// A JSON value whose strings may be templates. All of them share its place.
#[derive(Debug)]
pub(crate) struct JsonText {
    pub(crate) value: Json,
    pub(crate) span: Span,
}

impl JsonText {
    /// Visits every string inside, keys left out.
    pub(super) fn each_text<'s>(&'s self, visit: &mut Visit<'_, 's>) {
        each_string(&self.value, &mut |string| visit(string, self.span));
    }
}

fn each_string<'s>(value: &'s Json, visit: &mut dyn FnMut(&'s str)) {
    match value {
        Json::String(string) => visit(string),
        Json::Array(values) => values.iter().for_each(|value| each_string(value, visit)),
        Json::Object(map) => map.values().for_each(|value| each_string(value, visit)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// Visits texts, one by one.
pub(super) fn texts<'s>(texts: impl IntoIterator<Item = &'s Text>, visit: &mut Visit<'_, 's>) {
    for text in texts {
        visit(&text.value, text.span);
    }
}

/// Visits names and values.
pub(super) fn pairs<'s>(pairs: &'s [(Text, Text)], visit: &mut Visit<'_, 's>) {
    for (name, value) in pairs {
        texts([name, value], visit);
    }
}
