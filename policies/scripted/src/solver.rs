//! Solvers: choose the next line from the observations.

use clawrl_core::{
    EnvSpec, Message, Part, PolicyRequest, Role, Solver, SplitMix64, TaskSpec, ToolCall, derive_seed,
};
use serde_json::json;

use crate::miniwob::{self, History};
use crate::page::Page;
use crate::script::submit_call;

/// The call that a solver makes at the turn of a request; `submit` where it knows no other.
pub(crate) fn solved_call(solver: Solver, task: &TaskSpec, request: &PolicyRequest<'_>) -> ToolCall {
    let line = match solver {
        Solver::Miniwob => miniwob_line(task, request),
        Solver::RandomClick => random_click(request),
        _ => None,
    };
    line.map_or_else(submit_call, |line| ToolCall::new("act", json!({ "line": line })))
}

fn miniwob_line(task: &TaskSpec, request: &PolicyRequest<'_>) -> Option<String> {
    let said: Vec<String> = request
        .conversation
        .iter()
        .filter(|message| message.role == Role::Assistant)
        .flat_map(|message| &message.tool_calls)
        .filter_map(|call| call.str_argument("line").map(str::to_owned))
        .collect();
    let (first, seen) = (first_seen(request.conversation), last_seen(request.conversation));
    let turn = usize::try_from(request.turn).ok()?;
    let history = History { first: &first, seen: &seen, said: &said, turn };
    miniwob::next_line(family(task)?, &history)
}

/// The name of the first page's file.
fn family(task: &TaskSpec) -> Option<&str> {
    let EnvSpec::Gui(gui) = &task.env else { return None };
    let path = gui.start.split(['?', '#']).next().unwrap_or_default();
    path.rsplit('/').next()?.strip_suffix(".html")
}

/// Clicks one element of the first page. The seed of the first turn's request is that of the slot, so a retry clicks
/// the same.
fn random_click(request: &PolicyRequest<'_>) -> Option<String> {
    if request.turn > 0 {
        return None;
    }
    let page = Page::read(&first_seen(request.conversation));
    let numbers: Vec<u32> = page.numbered().filter_map(|node| node.number).collect();
    let mut lot = SplitMix64::new(derive_seed(request.seed, "random-click", &[]));
    let at = usize::try_from(lot.below(numbers.len() as u64)).unwrap_or_default();
    numbers.get(at).map(|number| format!("click {number}"))
}

/// The first observation stands behind the instruction.
fn first_seen(conversation: &[Message]) -> String {
    let parts = conversation.first().map_or(&[][..], |message| &message.parts);
    texts(parts.get(1..).unwrap_or_default())
}

fn last_seen(conversation: &[Message]) -> String {
    match conversation {
        [] | [_] => first_seen(conversation),
        [.., last] => texts(&last.parts),
    }
}

fn texts(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        Part::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
