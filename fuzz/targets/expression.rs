//! Expressions of clients: each one is parsed and evaluated to a value or an error, within its
//! limits.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scrip_expression::{Detokenization, Expression, Scope, Template, take_inner_steps};
use serde_json::{Value, json};

fuzz_target!(|text: &str| {
    let data = json!({
        "number": "4242424242424242", "expiration_month": 12, "name": "Ada Lovelace",
        "list": [1, "two", {"three": 3}, null, true, 1.5e3], "empty": "",
    });
    let metadata = json!({"a": "b"});
    if let Ok(expression) = Expression::parse(text) {
        let scope = Scope::new(&data, Some(&metadata));
        take_inner_steps();
        let _ = expression.evaluate(&scope);
        // The same limit as in the cost test of scrip-expression.
        let (steps, work) = (take_inner_steps(), scope.spent_work().work);
        assert!(steps <= work * 4 + 1024, "{steps} steps for {work} of charged work");
    }
    let value = Value::String(text.to_owned());
    if let Ok(template) = Template::parse(&value) {
        let _ = template.evaluate(&Scope::new(&data, Some(&metadata)));
    }
    let _ = Detokenization::parse(&value);
});
