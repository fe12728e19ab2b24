//! Tests of [`super`].

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{Environment, ErrorKind, UndefinedBehavior, context};

use crate::{Exceeded, Program, bound, bounded_methods};

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_debug(true);
    bound(&mut environment);
    environment.set_unknown_method_callback(bounded_methods(|_, _, method, _| panic!("{method} was called")));
    environment
}

fn values() -> Value {
    context! { word => "ab", list => vec![3, 1, 2], map => context! { k => "v" } }
}

/// I4: our program and the engine render the same text.
fn same(source: &str) {
    let plain = Environment::new().render_str(source, values()).map_err(|error| error.to_string());
    let environment = environment();
    let program = Program::template("<string>", source, SyntaxConfig::default());
    let bounded = program.and_then(|program| program.render(&environment, values()));
    assert_eq!(bounded.map_err(|error| error.kind().to_string()).ok(), plain.ok(), "{source}");
}

#[test]
fn i4_templates_render_as_those_of_the_engine() {
    for source in [
        "plain\n",
        "{{ word }} {{ word ~ 1 ~ [word] }} {{ word + 'c' }} {{ word * 3 }} {{ 2 * 3 + 1 }}",
        "{{ list + [4] }} {{ list * 2 }} {{ (1, 2) + (3,) }} {{ list[1:] }} {{ list[::-1] }} {{ word[1:] }}",
        "{{ {'a': 1, 'b': [1, {'c': none}]} }} {{ list | sort | join(', ') }} {{ word | replace('a', 'x') }}",
        "{{ 'a\nb' | indent(2) }}{{ 'a\nb' | indent(width=3) }}{{ list | batch(2) | list }}{{ '%5.1f' | format(2.25) }}",
        "{% for i in list recursive %}{{ loop.index }}{{ i }}{% if not loop.last %},{% endif %}{% else %}none{% endfor %}",
        "{% for i in [[1, [2]], [3]] recursive %}{% if i is iterable %}({{ loop(i) }}){% else %}{{ i }}{% endif %}{% endfor %}",
        "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
        "{% for k, v in map | items %}{{ k }}={{ v }}{% endfor %}{% for c in 'xyz' if c != 'y' %}{{ c }}{% endfor %}",
        "{% macro m(a, b='d') %}[{{ a }}{{ b }}{{ caller() if caller else '' }}]{% endmacro %}{{ m(1) }}{{ m(b=word, a=2) }}\
         {% call m(3) %}inner {{ word }}{% endcall %}",
        "{% set n = namespace(a=1) %}{% for i in list %}{% set n.a = n.a + i %}{% set n.b = [n.a] %}{% endfor %}{{ n.a }}{{ n.b }}",
        "{% set x %}captured {{ word }}{% endset %}{{ x | upper }}{% filter upper %}{{ word }}{% endfilter %}",
        "{% with a = word, b = a %}{{ a }}{{ b }}{% endwith %}{{ 'yes' if list else 'no' }}{{ missing }}{{ word is defined }}",
        "{{ 1 < 2 < 3 }}{{ 2 in list }}{{ 'a' in word }}{{ not list }}{{ word == 'ab' and list != [] or false }}",
        "{{ range(3) }}{{ list | map('string') | list }}{{ list | select('odd') | list }}{{ dict(a=1) }}{{ map.k }}{{ map['k'] }}",
        "{% autoescape true %}<b>{{ '<' }}</b>{% endautoescape %}{% raw %}{{ x }}{% endraw %}{# no #}",
        "{{ range(3) is sequence }}{{ (list * 2) is sequence }}{{ (list + [1])[0] }}{{ list | select | length }}{{ range(4) | last }}",
        "{% set r = range(3) %}{% for i in r %}{{ r | length }}{{ r[1:] | first }}{% endfor %}{{ map | items }}",
        "{{ [1] | chain([2], list) }} {{ map | chain({'z': 1, 'k': 2}) }} {{ 'ab' | chain([1]) | list }} {{ [] | chain | list }}",
        "{{ word | nope }}",
        "{{ list + word }}",
        "{{ m( }}",
    ] {
        same(source);
    }
}

#[test]
fn i4_names_are_those_that_the_engine_finds() {
    for source in [
        "{{ a }}{{ b.c }}{{ d['e'] | f(g) }}{% set h = i %}{{ h }}{{ range(j) }}{{ caller }}",
        "{% for k, l in m if n %}{{ k }}{{ loop.index }}{{ o }}{% endfor %}{{ k }}",
        "{% set x = 1 %}{% macro p(q, r=s) %}{{ q }}{{ x }}{{ t }}{{ caller() }}{% endmacro %}{{ p(u) }}{{ q }}",
        "{% with v = w %}{{ v }}{% endwith %}{% set ns = namespace(y=z) %}{% set ns.y = self %}",
    ] {
        let engine = Environment::new();
        let expected = engine.template_from_str(source).unwrap().undeclared_variables(false);
        assert_eq!(
            Program::names(source, SyntaxConfig::default()).unwrap(),
            expected.into_iter().collect(),
            "{source}"
        );
    }
}

/// The error's message, its position in the template, and whether a limit was exceeded.
fn failure(source: &str) -> (String, String, bool) {
    let environment = environment();
    let program = Program::template("t", source, SyntaxConfig::default());
    match program.and_then(|program| program.render(&environment, values())) {
        Ok(text) => panic!("{} bytes of text from {source:.200}", text.len()),
        Err(error) => {
            let place = error.range().map(|range| source[range].to_owned()).unwrap_or_default();
            (error.detail().unwrap_or_default().to_owned(), place, Exceeded::of(&error).is_some())
        }
    }
}

fn refused(source: &str, expected: &str) {
    let (detail, _, is_exceeded) = failure(source);
    assert_eq!((detail.as_str(), is_exceeded), (expected, true), "{source:.200}");
}

const LONG: &str = "more than 1000000 steps; those of nested loops multiply";
const LARGE: &str = "a value of more than 16 MiB";
const MUCH: &str = "values of more than 512 MiB together";
const DEEP: &str = "values nested more than 200 deep";

/// `{% set n.v = ... %}`, many times.
fn repeated(begin: &str, times: usize, value: &str) -> String {
    format!(
        "{{% set n = namespace(v={begin}) %}}{{% for i in range({times}) %}}{{% set n.v = {value} %}}{{% endfor %}}"
    )
}

#[test]
fn i1_loops_without_an_end_are_refused() {
    refused("{% for i in range(9000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}", LONG);
    let nothing =
        "{% macro m(n) %}{% if n %}{% do m(n - 1) %}{% do m(n - 1) %}{% endif %}{% endmacro %}{% do m(40) %}";
    refused(nothing, LONG);
    refused(
        "{% set l = range(99999) %}{% for i in l %}{% for j in l if false %}{% endfor %}{% endfor %}",
        LONG,
    );
    refused(
        "{% set l = [1] * 600000 %}{% if l | select('in', [1]) and l | select('in', [1]) %}{% endif %}",
        LONG,
    );
    let calls = "{% macro m(n) %}{% if n %}{% set a = m(n - 1) %}{% set b = m(n - 1) %}{% endif %}{% endmacro %}{{ m(40) }}";
    refused(calls, LONG);
}

/// There is nothing in them to weigh.
#[test]
fn i1_empty_lists_and_maps_join_at_once() {
    let fifty = vec!["n.v"; 50].join(", ");
    for (begin, value) in [
        ("[]", "n.v + n.v".to_owned()),
        ("[]", format!("n.v | chain({fifty})")),
        ("{}", format!("n.v | chain({fifty})")),
    ] {
        let source = repeated(begin, 60, &value) + "{{ n.v | length }}";
        let program = Program::template("t", &source, SyntaxConfig::default()).unwrap();
        assert_eq!(program.render(&environment(), Value::UNDEFINED).unwrap(), "0", "{value:.20}");
    }
}

/// Each attribute is within the bounds, all of them together are not.
#[test]
fn i2_a_namespace_is_weighed_before_it_becomes_text() {
    let attributes: String = (0..9).map(|at| format!("{{% set n.a{at} = b %}}")).collect();
    let begun = format!("{{% set b = 'x' * 4000000 %}}{{% set n = namespace() %}}{attributes}");
    for use_of in ["n ~ ''", "'' ~ n", "n | string", "n | upper", "n | pprint", "'a' | replace('a', n)"] {
        refused(&format!("{begun}{{% set x = {use_of} %}}"), LARGE);
    }
    refused(&format!("{begun}{{{{ n }}}}"), LARGE);
}

#[test]
fn the_state_of_the_engine_cannot_be_printed() {
    assert!(failure("{{ debug() }}").0.contains("debug"));
}

#[test]
fn i2_values_that_grow_are_refused_where_they_do() {
    for value in [
        "n.v ~ n.v",
        "n.v + n.v",
        "n.v * 4",
        "n.v | replace('a', n.v)",
        "[n.v, n.v] | join",
        "'%s%s' | format(n.v, n.v)",
    ] {
        let source = repeated("word", 99, value);
        refused(&source, LARGE);
        let place = failure(&source).1;
        assert!(value.contains(&place) && place.contains("n.v"), "{place}");
    }
    for value in [
        "n.v + n.v",
        "[n.v, n.v]",
        "{'a': n.v, 'b': n.v}",
        "(n.v, n.v)",
        "n.v * 3",
        "(n.v | list) + (n.v | list)",
    ] {
        refused(&repeated("[1]", 99, value), LARGE);
    }
    let captured = "{% set a %}abcdefghijklmnopqrstuvwxyz{% endset %}".to_owned()
        + &"{% set a %}{{ a }}{{ a }}{% endset %}".repeat(40);
    refused(&captured, LARGE);
    let passed = format!(
        "{{% macro m(a) %}}{{{{ a }}}}{{{{ a }}}}{{% endmacro %}}{{{{ {}word{} }}}}",
        "m(".repeat(40),
        ")".repeat(40)
    );
    refused(&passed, LARGE);
    refused("{{ [1] * 99999999 }}", LARGE);
    refused("{{ ([word * 9000] * 9000) | length }}", LARGE);
    refused("{{ ((1,) * 99999999) | length }}", LARGE);
}

#[test]
fn i2_oversized_results_are_refused() {
    for call in [
        "(word * 999999) | replace('', word * 999999)",
        "range(99999) | join(word * 999999)",
        "word | indent(999999999999, true)",
        "word | indent(width=999999999999, first=true)",
        "list | batch(9999999999, 'x')",
        "list | slice(9999999999)",
        "'%999999999999d' | format(1)",
        "[word * 999999] | map('replace', 'a', word * 999999) | list",
        "('{0}' * 999).format(word * 99999)",
        "('%(a)s' * 999) | format(a=word * 99999)",
        "(word * 999999).replace('', word * 999999)",
    ] {
        refused(&format!("{{{{ {call} }}}}"), LARGE);
    }
}

#[test]
fn i2_all_that_a_rendering_makes_is_bounded() {
    refused(&format!("{{% for i in range(99999) %}}{}{{% endfor %}}", "x".repeat(99_999)), MUCH);
    refused("{% set s = word * 999999 %}{% for i in range(999) %}{{ s }}{% endfor %}", MUCH);
    let kept = "{% set s = word * 999999 %}".to_owned()
        + &(0..999).map(|i| format!("{{% set s{i} = s ~ {i} %}}")).collect::<String>();
    refused(&kept, MUCH);
    let inside = "{% set s = word * 999999 %}".to_owned()
        + &(0..999).map(|i| format!("{{% set s{i} = s | split(',') | list %}}")).collect::<String>();
    refused(&inside, MUCH);
    refused("{{ ([word] * 99999) | map('replace', 'a', word * 9999) | list }}", MUCH);
}

#[test]
fn i3_unbounded_nesting_is_refused() {
    refused(&repeated("1", 99_999, "[n.v]"), DEEP);
}

#[test]
fn i4_no_value_holds_a_namespace() {
    let held = "a namespace in another value";
    for value in ["n", "[1, n]", "{'a': n}", "namespace(a=n)", "dict(a=n)", "none | default(n, true)", "(n,)"]
    {
        refused(&repeated("1", 1, value), held);
    }
    refused("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{{ a }}", held);
    // Weighed before it grew.
    refused(
        "{% set n = namespace(v='') %}{% set l = [n] * 999 %}{% set n.v = word * 9999 %}{{ l | string }}",
        held,
    );
    same(
        "{% set n = namespace(v=1) %}{% macro m(a) %}{% set a.v = a.v + 1 %}{% endmacro %}{{ m(n) }}{{ n.v }}{% set l = n %}{{ l.v }}",
    );
}

#[test]
fn i3_too_deep_for_the_compiler_is_refused() {
    let in_a_row = |sign: &str| failure(&format!("{{{{ 1{} }}}}", sign.repeat(99_999))).0;
    for sign in [
        " + 1",
        " ~ 1",
        " or 1",
        " == 1",
        ".a",
        "[0]",
        "|abs",
        "(1)",
        "|f(1, 1)",
        ".a([1, 1], 1)",
        "(1, 1) + 1",
    ] {
        assert_eq!(in_a_row(sign), "an expression has more than 1000 words and signs in a row", "{sign}");
    }
    let left = format!("{{{{ {}1{} }}}}", "(".repeat(100), " + 1 + 1 + 1 + 1 + 1 + 1)".repeat(100));
    assert_eq!(failure(&left).0, "an expression has more than 1000 words and signs in a row");
    let branches = "{% if x %}".to_owned() + &"{% elif x %}".repeat(99_999) + "{% endif %}";
    assert_eq!(failure(&branches).0, "there are more than 300 branches with `elif`");
    for brackets in ["{{ ", "{% set "] {
        assert_eq!(
            failure(&format!("{brackets}{}", "(".repeat(99_999))).0,
            "brackets are nested more than 150 deep"
        );
    }
    assert_eq!(
        failure(&format!("{{{{ word.f({}) }}}}", "1,".repeat(99_999))).0,
        "a list or a call has more than 60000 entries"
    );
    // The engine's own bound.
    assert_eq!(failure(&("{% if x %}".repeat(9_999))).0, "template exceeds maximum recursion limits");
}

#[test]
fn i3_deepest_nesting_fits_on_the_stack() {
    let environment = environment();
    let rendered = |source: &str| {
        let program = Program::template("t", source, SyntaxConfig::default()).unwrap();
        program.render(&environment, values()).unwrap()
    };
    assert_eq!(rendered(&format!("{{{{ 1{} }}}}", " + 1".repeat(499))), "500");
    assert_eq!(rendered(&format!("{{{{ 1{} }}}}", "|abs".repeat(499))), "1");
    assert_eq!(rendered(&format!("{{{{ {}1{} }}}}", "[".repeat(70), "]".repeat(70))).len(), 141);
    let branches =
        "{% if missing %}".to_owned() + &"{% elif missing %}".repeat(299) + "{% else %}x{% endif %}";
    assert_eq!(rendered(&branches), "x");
    let nested = 70;
    assert_eq!(
        rendered(&format!("{}x{}", "{% if word %}".repeat(nested), "{% endif %}".repeat(nested))),
        "x"
    );
}

#[test]
fn i2_constant_products_are_computed_at_render() {
    refused("{{ 'x' * 99999999 }}", LARGE);
    refused("{{ [1, 2] * (9999 * 9999) }}", LARGE);
    refused("{{ ('x' * 1000) * 1000 * 1000 }}", LARGE);
    refused(&(0..99).map(|i| format!("{{% set a{i} = 'x' * 9999999 %}}")).collect::<String>(), MUCH);
    let never = Program::template(
        "t",
        "{% if false %}{{ ('x' * 9999999) ~ ('x' * 99999999) }}{% endif %}",
        SyntaxConfig::default(),
    );
    assert_eq!(never.unwrap().render(&environment(), values()).unwrap(), "");
}

#[test]
fn long_lists_and_large_values_are_no_fault() {
    let environment = environment();
    let check = |source: &str, expected: usize| {
        let program = Program::template("t", source, SyntaxConfig::default()).unwrap();
        assert_eq!(program.render(&environment, values()).unwrap().len(), expected, "{source:.200}");
    };
    check(&format!("{{% for i in [{}] %}}x{{% endfor %}}", "'word', ".repeat(20_000)), 20_000);
    check("{{ 'x' * 9000000 }}", 9_000_000);
    check(
        "{% set n = namespace(s='') %}{% for i in range(3000) %}{% set n.s = n.s ~ 'line ' ~ i ~ '\n' %}{% endfor %}{{ n.s }}",
        28_890,
    );
    check("{% for i in range(300) %}{% for j in range(300) %}x{% endfor %}{% endfor %}", 90_000);
}

#[test]
fn undefined_values_keep_their_names() {
    let mut environment = environment();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let fail = |source: &str| {
        let program = Program::template("t", source, SyntaxConfig::default()).unwrap();
        let error = program.render(&environment, values()).unwrap_err();
        (error.kind(), source[error.range().unwrap()].to_owned())
    };
    assert_eq!(fail("a {{ wrod }}"), (ErrorKind::UndefinedError, "wrod".to_owned()));
    assert_eq!(fail("{{ [wrod] ~ 'a' }}{{ map.x ~ 'a' }}").1, "map.x ~ 'a'");
}

#[test]
fn an_expression_keeps_its_type() {
    let environment = environment();
    let value =
        |source| Program::expression(source).and_then(|program| program.evaluate(&environment, values()));
    assert_eq!(value("list[0] * 2").unwrap(), Value::from(6));
    assert_eq!(value("list + [1]").unwrap(), Value::from(vec![3, 1, 2, 1]));
    assert_eq!(value("word * 9999999").unwrap_err().detail(), Some(LARGE));
    assert_eq!(value("1 +").unwrap_err().kind(), ErrorKind::SyntaxError);
}
