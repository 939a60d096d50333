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
fn check(source: Value, expected: Value) {
    let vault = vault();
    let detokenization = Detokenization::parse(&source).unwrap();
    let value = evaluate(&detokenization, &vault);
    assert_eq!(value, Ok(expected), "{source}");
}

#[track_caller]
fn fails(source: &str, position: usize, problem: &str) {
    let vault = vault();
    let evaluated =
        Detokenization::parse(&json!(source)).and_then(|it| evaluate(&it, &vault).map(drop));
    let error = evaluated.unwrap_err().cause;
    assert_eq!((error.position, error.problem), (position, problem), "{source}");
}

const CARD: &str = "26818785-547b-4b28-b0fa-531377e99f4e";

#[test]
fn values_take_the_place_of_expressions() {
    check(json!(format!("{{{{ {CARD} }}}}")), json!({"number": "4242424242424242", "month": 7}));
    check(json!(format!("{{{{{CARD}|json:'$.month'}}}}")), json!(7));
    check(json!(format!("{{{{ {CARD} | json: '$.number' | last4 }}}}")), json!("4242"));
    check(json!(format!("{{{{ token: {CARD} | json: '$.data.number' }}}}")), json!("4242"));
    check(
        json!(format!("{{{{token:{CARD}}}}}")),
        json!({"type": "card", "data": {"number": "4242"}}),
    );
    check(json!("{{ token_intent: abc | json: '$.type' }}"), json!("card"));
    check(json!("{{ nul }}"), Value::Null);
    check(json!(format!("a {{{{ nul }}}}{{{{ {CARD} | json: '$.month' }}}} b")), json!("a 7 b"));
    check(
        json!({"a": [1, null, "plain", {"b": "{{ token_intent: abc }}"}], "{{ nul }}": true}),
        json!({"a": [1, null, "plain", {"b": {"type": "card"}}], "{{ nul }}": true}),
    );
}

#[test]
fn text_without_an_expression_stays() {
    check(json!("{% if x %} }} { token }"), json!("{% if x %} }} { token }"));
    check(json!(12), json!(12));
    check(json!("x".repeat(200_000)), json!("x".repeat(200_000)));
    let long = "y".repeat(200_000);
    check(json!(format!("{long}{{{{ nul }}}}{long}")), json!(format!("{long}{long}")));
}

#[test]
fn ids_have_many_characters() {
    check(json!("{{ ssn.1: O'Brien, jr | last4 }}"), json!("6789"));
    check(json!("{{ ssn.1: O'Brien, jr , last4 }}"), json!("6789"));
    check(json!("{{ last, Miller }}"), json!("m"));
    check(json!("{{ last, Miller, upcase }}"), json!("M"));
    check(json!("{{-dash- | plus: 1 }}"), json!(6));
    check(json!("{{ last, Miller, append: '}}|' }}"), json!("m}}|"));
    // The comma before a filter's name is a pipe: an id that ends so cannot be named.
    check(json!("{{ nul, last }}"), Value::Null);
}

#[test]
fn a_comma_is_never_less_than_a_pipe() {
    check(json!("{{ ssn.1: O'Brien, jr, reveal_last: 4 }}"), json!("XXX-XX-6789"));
    fails("{{ last, Miller, reveal_lst: 1 }}", 1, "nothing has this id");
    fails("{{ last, Miller | upcase, shout }}", 27, "there is no such filter");
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
fn errors() {
    fails("é {{ abc", 5, "this {{ is never closed");
    fails("{{ }}", 3, "there is no id");
    fails("{{ token: | last4 }}", 3, "there is no id");
    fails("{{ ab }}", 3, "this is not an id");
    fails("{{ a#bc }}", 3, "this is not an id");
    fails(&format!("{{{{ {} }}}}", "x".repeat(401)), 3, "this is not an id");
    fails(&format!("{{{{ {} }}}}", "x".repeat(5000)), 3, "the expression is too long");
    fails("x {{ abc }}", 3, "nothing has this id");
    fails("é {{ nul | shout }}", 12, "there is no such filter");
    fails("{{ nul | append: data }}", 18, "only quoted text and numbers can be used here");
    fails("{{ nul | append: 'x }}", 3, "this {{ is never closed");
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
fn an_error_says_which_text() {
    let at = |source: Value| {
        let vault = vault();
        let evaluated =
            Detokenization::parse(&source).and_then(|it| evaluate(&it, &vault).map(drop));
        evaluated.unwrap_err().path
    };
    assert_eq!(at(json!("{{ none }}")), vec![]);
    let (name, index) = (|it: &str| PathStep::Name(it.to_owned()), PathStep::Index);
    let path = vec![name("a"), index(1), name("b")];
    for source in ["{{ none }}", "x {{ none }}", "{{ nul | shout }}", "{{ nul"] {
        let source = json!({"a": ["{{ nul }}", {"b": source, "c": 1}]});
        assert_eq!(at(source), path);
    }
}
