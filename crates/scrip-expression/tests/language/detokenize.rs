//! Detokenization.

use scrip_expression::{Detokenization, LeafError, PathStep, Reference, ReferenceKind, Scope};
use serde_json::{Value, json};

fn resolve<'v>(vault: &'v Value, reference: &Reference) -> Option<&'v Value> {
    let kind = match reference.kind {
        ReferenceKind::Data => "data",
        ReferenceKind::Token => "token",
        ReferenceKind::TokenIntent => "intent",
    };
    vault.get(kind)?.get(&reference.id)
}

fn vault() -> Value {
    json!({
        "data": {
            "26818785-547b-4b28-b0fa-531377e99f4e": {"number": "4242424242424242", "month": 7},
            "ssn.1: O'Brien, jr": "123-45-6789",
            "last, Miller": "m",
            "-dash-": 5,
            "nul": null,
        },
        "token": {"26818785-547b-4b28-b0fa-531377e99f4e": {"type": "card", "data": {"number": "4242"}}},
        "intent": {"abc": {"type": "card"}},
    })
}

fn evaluate(detokenization: &Detokenization, vault: &Value) -> Result<Value, LeafError> {
    detokenization.evaluate(&|it| resolve(vault, it), &Scope::new(&Value::Null, None))
}

#[track_caller]
fn assert_detokenizes(source: Value, expected: Value) {
    let vault = vault();
    let detokenization = Detokenization::parse(&source).unwrap();
    let value = evaluate(&detokenization, &vault);
    assert_eq!(value, Ok(expected), "{source}");
}

#[track_caller]
fn assert_detokenize_error(source: &str, position: usize, problem: &str) {
    let vault = vault();
    let evaluated =
        Detokenization::parse(&json!(source)).and_then(|it| evaluate(&it, &vault).map(drop));
    let error = evaluated.unwrap_err().cause;
    assert_eq!((error.position, error.problem), (position, problem), "{source}");
}

const CARD: &str = "26818785-547b-4b28-b0fa-531377e99f4e";

#[test]
fn expressions_are_replaced_by_token_values() {
    assert_detokenizes(
        json!(format!("{{{{ {CARD} }}}}")),
        json!({"number": "4242424242424242", "month": 7}),
    );
    assert_detokenizes(json!(format!("{{{{{CARD}|json:'$.month'}}}}")), json!(7));
    assert_detokenizes(
        json!(format!("{{{{ {CARD} | json: '$.number' | last4 }}}}")),
        json!("4242"),
    );
    assert_detokenizes(
        json!(format!("{{{{ token: {CARD} | json: '$.data.number' }}}}")),
        json!("4242"),
    );
    assert_detokenizes(
        json!(format!("{{{{token:{CARD}}}}}")),
        json!({"type": "card", "data": {"number": "4242"}}),
    );
    assert_detokenizes(json!("{{ token_intent: abc | json: '$.type' }}"), json!("card"));
    assert_detokenizes(json!("{{ nul }}"), Value::Null);
    assert_detokenizes(
        json!(format!("a {{{{ nul }}}}{{{{ {CARD} | json: '$.month' }}}} b")),
        json!("a 7 b"),
    );
    assert_detokenizes(
        json!({"a": [1, null, "plain", {"b": "{{ token_intent: abc }}"}], "{{ nul }}": true}),
        json!({"a": [1, null, "plain", {"b": {"type": "card"}}], "{{ nul }}": true}),
    );
}

#[test]
fn text_without_expression_is_unchanged() {
    assert_detokenizes(json!("{% if x %} }} { token }"), json!("{% if x %} }} { token }"));
    assert_detokenizes(json!(12), json!(12));
    assert_detokenizes(json!("x".repeat(200_000)), json!("x".repeat(200_000)));
    let long = "y".repeat(200_000);
    assert_detokenizes(json!(format!("{long}{{{{ nul }}}}{long}")), json!(format!("{long}{long}")));
}

#[test]
fn ids_may_contain_punctuation() {
    assert_detokenizes(json!("{{ ssn.1: O'Brien, jr | last4 }}"), json!("6789"));
    assert_detokenizes(json!("{{ ssn.1: O'Brien, jr , last4 }}"), json!("6789"));
    assert_detokenizes(json!("{{ last, Miller }}"), json!("m"));
    assert_detokenizes(json!("{{ last, Miller, upcase }}"), json!("M"));
    assert_detokenizes(json!("{{-dash- | plus: 1 }}"), json!(6));
    assert_detokenizes(json!("{{ last, Miller, append: '}}|' }}"), json!("m}}|"));
    // A comma before a filter name is a pipe: an id that ends this way cannot be referenced.
    assert_detokenizes(json!("{{ nul, last }}"), Value::Null);
}

#[test]
fn comma_before_a_filter_acts_as_pipe_in_detokenization() {
    assert_detokenizes(json!("{{ ssn.1: O'Brien, jr, reveal_last: 4 }}"), json!("XXX-XX-6789"));
    assert_detokenize_error("{{ last, Miller, reveal_lst: 1 }}", 1, "no token has this id");
    assert_detokenize_error("{{ last, Miller | upcase, shout }}", 27, "unknown filter");
}

#[test]
fn references_are_distinct_and_in_order() {
    let source = json!([
        "{{ token: abc }} {{ abc | last4 }}",
        {"x": "{{ xyz }}{{abc}}", "y": "{{ token_intent: abc }}"},
    ]);
    let detokenization = Detokenization::parse(&source).unwrap();
    let found: Vec<_> =
        detokenization.references().iter().map(|it| (it.kind, it.id.as_str())).collect();
    let expected = [
        (ReferenceKind::Token, "abc"),
        (ReferenceKind::Data, "abc"),
        (ReferenceKind::Data, "xyz"),
        (ReferenceKind::TokenIntent, "abc"),
    ];
    assert_eq!(found, expected);
    assert_eq!(detokenization.token_count(), 3);
    assert_eq!(Detokenization::parse(&json!("plain")).unwrap().token_count(), 0);
}

#[test]
fn invalid_detokenization_reports_position_and_problem() {
    assert_detokenize_error("é {{ abc", 5, "this {{ is never closed");
    assert_detokenize_error("{{ }}", 3, "an id was expected");
    assert_detokenize_error("{{ token: | last4 }}", 3, "an id was expected");
    assert_detokenize_error("{{ ab }}", 3, "this is not an id");
    assert_detokenize_error("{{ a#bc }}", 3, "this is not an id");
    assert_detokenize_error(&format!("{{{{ {} }}}}", "x".repeat(401)), 3, "this is not an id");
    assert_detokenize_error(
        &format!("{{{{ {} }}}}", "x".repeat(5000)),
        3,
        "the expression is too long",
    );
    assert_detokenize_error("x {{ abc }}", 3, "no token has this id");
    assert_detokenize_error("é {{ nul | shout }}", 12, "unknown filter");
    assert_detokenize_error(
        "{{ nul | append: data }}",
        18,
        "only quoted text and numbers can be used here",
    );
    assert_detokenize_error("{{ nul | append: 'x }}", 3, "this {{ is never closed");
    let deep = (0..65).fold(json!("{{ abc }}"), |inner, _| json!([inner]));
    assert_eq!(
        Detokenization::parse(&deep).unwrap_err().cause.problem,
        "the JSON is nested too deep"
    );
}

#[test]
fn leaves_share_one_budget() {
    let vault = json!({"data": {"abc": "x".repeat(60_000)}});
    let evaluate = |source: &Value| {
        let evaluated = evaluate(&Detokenization::parse(source).unwrap(), &vault);
        evaluated.map(drop).map_err(|error| error.cause.problem)
    };
    assert_eq!(evaluate(&json!(vec!["{{ abc }}"; 100])), Ok(()));
    assert_eq!(evaluate(&json!(vec!["{{ abc }}"; 200])), Err("the output is too large"));
    assert_eq!(evaluate(&json!("{{ abc }}{{ abc }}")), Err("the output is too large"));
    assert_eq!(
        evaluate(&json!(vec!["{{ abc | last4 | last4 }}"; 4000])),
        Err("the output is too large")
    );
}

#[test]
fn error_path_names_the_failing_text() {
    let error_path = |source: Value| {
        let vault = vault();
        let evaluated =
            Detokenization::parse(&source).and_then(|it| evaluate(&it, &vault).map(drop));
        evaluated.unwrap_err().path
    };
    assert_eq!(error_path(json!("{{ none }}")), vec![]);
    let (name, index) = (|it: &str| PathStep::Name(it.to_owned()), PathStep::Index);
    let path = vec![name("a"), index(1), name("b")];
    for source in ["{{ none }}", "x {{ none }}", "{{ nul | shout }}", "{{ nul"] {
        let source = json!({"a": ["{{ nul }}", {"b": source, "c": 1}]});
        assert_eq!(error_path(source), path);
    }
}
