//! How long the common ones take: `cargo test --release -- --ignored --nocapture speed`.

use std::{hint::black_box, time::Instant};

use scrip_expression::{Expression, ExpressionCache, Scope, Template};
use serde_json::json;

#[expect(clippy::disallowed_methods, reason = "a measurement reads real time")]
#[expect(clippy::print_stderr, reason = "the result of a measurement")]
fn measure(name: &str, mut once: impl FnMut()) {
    const TIMES: u32 = 200_000;
    let start = Instant::now();
    for _ in 0..TIMES {
        once();
    }
    eprintln!("{name}: {:?}", start.elapsed() / TIMES);
}

#[test]
#[ignore = "a measurement, not a check"]
fn speed() {
    let source = "{{ data.number | reveal_last: 4 }}";
    let data = json!({
        "number": "4242424242424242", "expiration_month": 7, "expiration_year": 2031, "name": "Ann",
    });
    measure("compile one", || drop(black_box(Expression::parse(source))));
    let cache = ExpressionCache::new(100, 1 << 20);
    measure("compile one, from the cache", || drop(black_box(cache.parse(source))));
    let expression = Expression::parse(source).unwrap();
    measure("evaluate one", || drop(black_box(expression.evaluate(&Scope::new(&data, None)))));
    let mask = json!({
        "number": source, "month": "{{ data.expiration_month }}", "year": "{{ data.expiration_year }}",
        "name": "{{ data.name | upcase }}", "bin": "{{ data.number | card_bin }}",
        "exp": "{{ data | card_exp: 'MM/YY' }}",
    });
    let template = Template::parse(&mask).unwrap();
    measure("compile a mask of six", || drop(black_box(Template::parse(&mask))));
    measure("a mask of six", || drop(black_box(template.evaluate(&Scope::new(&data, None)))));
}
