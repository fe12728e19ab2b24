//! A copy of a template's syntax tree, in which everything that is made is weighed.
//!
//! Every value that an operation makes goes through [`KEEP`] or [`RESULT`]; texts go through the formatter, which weighs them too. Every body that may
//! run again, of a loop or a macro, begins with a text of no length, which counts as a step.

use minijinja::Value;
use minijinja::machinery::Span;
use minijinja::machinery::ast::{
    AutoEscape, BinOp, BinOpKind, Break, Call, CallArg, CallBlock, Compare, CompareOp, Const, Continue, Do,
    EmitExpr, Expr, Filter, FilterBlock, ForLoop, GetAttr, GetItem, IfCond, IfExpr, List, Macro, Map, Set,
    SetBlock, Slice, Spanned, Stmt, Template, Test, Tuple, UnaryOp, UnaryOpKind, Var, WithBlock,
};

/// The filter that weighs the value that an operation made. No template can name it.
pub(crate) const KEEP: &str = "=keep";

/// The filter that weighs the result of a filter, a function or a method.
pub(crate) const RESULT: &str = "=result";

/// The filter that weighs a value that a namespace is about to hold.
pub(crate) const HOLD: &str = "=hold";

/// The filter that weighs an operand or argument that was not weighed yet.
pub(crate) const OPERAND: &str = "=operand";

/// The filters of the factors of a product, which may be much larger than both. The second one looks at the size.
pub(crate) const FACTORS: [&str; 2] = ["=factor", "=times"];

pub(crate) fn statement<'s>(statement: &Stmt<'s>) -> Stmt<'s> {
    match statement {
        Stmt::Template(whole) => {
            Stmt::Template(Spanned::new(Template { children: statements(&whole.children) }, whole.span()))
        }
        // The formatter weighs printed values.
        Stmt::EmitExpr(emit) => {
            Stmt::EmitExpr(Spanned::new(EmitExpr { expr: plain(&emit.expr) }, emit.span()))
        }
        Stmt::EmitRaw(raw) => text(raw.raw, raw.span()),
        Stmt::ForLoop(repeated) => {
            let repeated_weighed = ForLoop {
                target: target(&repeated.target),
                iter: expression(&repeated.iter),
                filter_expr: repeated.filter_expr.as_ref().map(|filter| filtered(KEEP, expression(filter))),
                recursive: repeated.recursive,
                body: repeating(&repeated.body, repeated.span()),
                else_body: statements(&repeated.else_body),
            };
            Stmt::ForLoop(Spanned::new(repeated_weighed, repeated.span()))
        }
        Stmt::IfCond(branch) => {
            let weighed = IfCond {
                expr: expression(&branch.expr),
                true_body: statements(&branch.true_body),
                false_body: statements(&branch.false_body),
            };
            Stmt::IfCond(Spanned::new(weighed, branch.span()))
        }
        Stmt::WithBlock(block) => {
            let assigned = |(to, value): &(Expr<'s>, Expr<'s>)| (target(to), assigned(to, value));
            let assignments = block.assignments.iter().map(assigned).collect();
            Stmt::WithBlock(Spanned::new(
                WithBlock { assignments, body: statements(&block.body) },
                block.span(),
            ))
        }
        Stmt::Set(set) => {
            let weighed = Set { target: target(&set.target), expr: assigned(&set.target, &set.expr) };
            Stmt::Set(Spanned::new(weighed, set.span()))
        }
        Stmt::SetBlock(set) => {
            // A filter without an expression applies to the captured text.
            let keep = || {
                Expr::Filter(Spanned::new(Filter { name: KEEP, expr: None, args: Vec::new() }, set.span()))
            };
            let weighed = SetBlock {
                target: target(&set.target),
                filter: Some(set.filter.as_ref().map_or_else(keep, expression)),
                body: statements(&set.body),
            };
            Stmt::SetBlock(Spanned::new(weighed, set.span()))
        }
        Stmt::AutoEscape(block) => {
            let weighed = AutoEscape { enabled: expression(&block.enabled), body: statements(&block.body) };
            Stmt::AutoEscape(Spanned::new(weighed, block.span()))
        }
        Stmt::FilterBlock(block) => {
            let weighed = FilterBlock { filter: expression(&block.filter), body: statements(&block.body) };
            Stmt::FilterBlock(Spanned::new(weighed, block.span()))
        }
        Stmt::Macro(declared) => Stmt::Macro(declaration(declared)),
        Stmt::CallBlock(block) => {
            let weighed = CallBlock { call: call(&block.call), macro_decl: declaration(&block.macro_decl) };
            Stmt::CallBlock(Spanned::new(weighed, block.span()))
        }
        Stmt::Continue(at) => Stmt::Continue(Spanned::new(Continue, at.span())),
        Stmt::Break(at) => Stmt::Break(Spanned::new(Break, at.span())),
        Stmt::Do(called) => Stmt::Do(Spanned::new(Do { call: call(&called.call) }, called.span())),
    }
}

fn statements<'s>(body: &[Stmt<'s>]) -> Vec<Stmt<'s>> {
    body.iter().map(statement).collect()
}

/// A body that may run again.
fn repeating<'s>(body: &[Stmt<'s>], span: Span) -> Vec<Stmt<'s>> {
    [text("", span)].into_iter().chain(body.iter().map(statement)).collect()
}

/// Text between blocks, which goes through the formatter here.
fn text<'s>(text: &str, span: Span) -> Stmt<'s> {
    let value = Value::from_safe_string(text.to_owned());
    Stmt::EmitExpr(Spanned::new(EmitExpr { expr: Expr::Const(Spanned::new(Const { value }, span)) }, span))
}

fn declaration<'s>(declared: &Spanned<Macro<'s>>) -> Spanned<Macro<'s>> {
    let weighed = Macro {
        name: declared.name,
        args: declared.args.iter().map(target).collect(),
        defaults: expressions(&declared.defaults),
        body: repeating(&declared.body, declared.span()),
    };
    Spanned::new(weighed, declared.span())
}

/// Targets of an assignment: names, also in lists, and attributes of namespaces.
fn target<'s>(to: &Expr<'s>) -> Expr<'s> {
    match to {
        Expr::List(list) => {
            Expr::List(Spanned::new(List { items: list.items.iter().map(target).collect() }, list.span()))
        }
        _ => plain(to),
    }
}

fn assigned<'s>(to: &Expr<'s>, value: &Expr<'s>) -> Expr<'s> {
    if matches!(to, Expr::GetAttr(_)) { filtered(HOLD, expression(value)) } else { expression(value) }
}

fn filtered<'s>(name: &'s str, value: Expr<'s>) -> Expr<'s> {
    let span = value.span();
    filtered_at(name, value, span)
}

fn filtered_at<'s>(name: &'s str, value: Expr<'s>, span: Span) -> Expr<'s> {
    Expr::Filter(Spanned::new(Filter { name, expr: Some(value), args: Vec::new() }, span))
}

fn expressions<'s>(all: &[Expr<'s>]) -> Vec<Expr<'s>> {
    all.iter().map(expression).collect()
}

/// An expression whose value is weighed if it makes one.
pub(crate) fn expression<'s>(expression: &Expr<'s>) -> Expr<'s> {
    match expression {
        Expr::Filter(_) | Expr::Call(_) => filtered(RESULT, plain(expression)),
        Expr::Slice(_) | Expr::List(_) | Expr::Tuple(_) | Expr::Map(_) => filtered(KEEP, plain(expression)),
        Expr::BinOp(operation)
            if matches!(operation.op, BinOpKind::Add | BinOpKind::Mul | BinOpKind::Concat) =>
        {
            filtered(KEEP, plain(expression))
        }
        _ => plain(expression),
    }
}

/// An expression whose parts are weighed, but not itself.
fn plain<'s>(of: &Expr<'s>) -> Expr<'s> {
    let optional = |part: &Option<Expr<'s>>| part.as_ref().map(expression);
    let span = of.span();
    match of {
        Expr::Var(var) => Expr::Var(Spanned::new(Var { id: var.id }, span)),
        Expr::Const(known) => Expr::Const(Spanned::new(Const { value: known.value.clone() }, span)),
        Expr::Slice(slice) => {
            let (start, stop, step) = (optional(&slice.start), optional(&slice.stop), optional(&slice.step));
            Expr::Slice(Spanned::new(Slice { expr: expression(&slice.expr), start, stop, step }, span))
        }
        Expr::UnaryOp(operation) => {
            let is_not = matches!(operation.op, UnaryOpKind::Not);
            let op = if is_not { UnaryOpKind::Not } else { UnaryOpKind::Neg };
            Expr::UnaryOp(Spanned::new(UnaryOp { op, expr: expression(&operation.expr) }, span))
        }
        Expr::BinOp(operation) => {
            let (mut left, mut right) = (expression(&operation.left), expression(&operation.right));
            if matches!(operation.op, BinOpKind::Concat) {
                (left, right) = (filtered(OPERAND, left), filtered(OPERAND, right));
            }
            if matches!(operation.op, BinOpKind::Mul) {
                (left, right) = (filtered_at(FACTORS[0], left, span), filtered_at(FACTORS[1], right, span));
            }
            Expr::BinOp(Spanned::new(BinOp { op: operation.op, left, right }, span))
        }
        Expr::Compare(compared) => {
            let next = |next: &CompareOp<'s>| CompareOp { op: next.op, expr: expression(&next.expr) };
            let ops = compared.ops.iter().map(next).collect();
            Expr::Compare(Spanned::new(Compare { expr: expression(&compared.expr), ops }, span))
        }
        Expr::IfExpr(choice) => {
            let (test_expr, true_expr) = (expression(&choice.test_expr), expression(&choice.true_expr));
            let false_expr = optional(&choice.false_expr);
            Expr::IfExpr(Spanned::new(IfExpr { test_expr, true_expr, false_expr }, span))
        }
        Expr::Filter(filter) => {
            let expr = filter.expr.as_ref().map(|value| filtered(OPERAND, expression(value)));
            let args = arguments(&filter.args);
            Expr::Filter(Spanned::new(Filter { name: filter.name, expr, args }, span))
        }
        Expr::Test(test) => {
            let (expr, args) = (expression(&test.expr), arguments(&test.args));
            Expr::Test(Spanned::new(Test { name: test.name, expr, args }, span))
        }
        Expr::GetAttr(part) => {
            Expr::GetAttr(Spanned::new(GetAttr { expr: expression(&part.expr), name: part.name }, span))
        }
        Expr::GetItem(part) => {
            let (expr, subscript_expr) = (expression(&part.expr), expression(&part.subscript_expr));
            Expr::GetItem(Spanned::new(GetItem { expr, subscript_expr }, span))
        }
        Expr::Call(called) => Expr::Call(call(called)),
        Expr::List(list) => Expr::List(Spanned::new(List { items: expressions(&list.items) }, span)),
        Expr::Tuple(tuple) => Expr::Tuple(Spanned::new(Tuple { items: expressions(&tuple.items) }, span)),
        Expr::Map(map) => {
            let (keys, values) = (expressions(&map.keys), expressions(&map.values));
            Expr::Map(Spanned::new(Map { keys, values }, span))
        }
    }
}

/// A callee is not a value of its own: `a.b()` calls a method.
fn call<'s>(called: &Spanned<Call<'s>>) -> Spanned<Call<'s>> {
    Spanned::new(Call { expr: plain(&called.expr), args: arguments(&called.args) }, called.span())
}

fn arguments<'s>(arguments: &[CallArg<'s>]) -> Vec<CallArg<'s>> {
    let weighed = |argument: &CallArg<'s>| match argument {
        CallArg::Pos(value) => CallArg::Pos(filtered(OPERAND, expression(value))),
        CallArg::Kwarg(name, value) => CallArg::Kwarg(name, filtered(OPERAND, expression(value))),
        CallArg::PosSplat(value) => CallArg::PosSplat(expression(value)),
        CallArg::KwargSplat(value) => CallArg::KwargSplat(expression(value)),
    };
    arguments.iter().map(weighed).collect()
}
