//! What expressions cost: compiled and evaluated, in this process, and as a share of a read.

use std::{hint::black_box, sync::Arc, time::Duration};

use scrip_expression::{Expression, ExpressionCache, Scope, Template};
use serde_json::{Value, json};

use crate::harness::clock::now;

const REVEAL: &str = "{{ data.number | reveal_last: 4 }}";

/// Nanoseconds each.
#[derive(Debug)]
pub(crate) struct Cost {
    pub(crate) compile: f64,
    pub(crate) compile_cached: f64,
    pub(crate) evaluate: f64,
    pub(crate) mask_compile: f64,
    pub(crate) mask_evaluate: f64,
}

fn card() -> Value {
    json!({"number": "4242424242424242", "expiration_month": 7, "expiration_year": 2031})
}

fn mask() -> Value {
    json!({
        "number": "{{ data.number | card_mask: 'true', 'true' }}",
        "bin": "{{ data.number | card_bin }}",
        "last4": "{{ data.number | last4 }}",
        "expiration_month": "{{ data.expiration_month }}",
        "expiration_year": "{{ data.expiration_year }}",
        "text": "card ending in {{ data.number | reveal_last: 4 }}",
    })
}

pub(crate) fn measure() -> anyhow::Result<Cost> {
    let (card, mask) = (card(), mask());
    let expression = Expression::parse(REVEAL)?;
    let template = Template::parse(&mask)?;
    let cache = ExpressionCache::new(1024, 1024 * 1024);
    cache.parse(REVEAL)?;
    Ok(Cost {
        compile: each(|| Expression::parse(black_box(REVEAL)).is_ok()),
        compile_cached: each(|| cache.parse(black_box(REVEAL)).map(|it: Arc<_>| drop(it)).is_ok()),
        evaluate: each(|| expression.evaluate(&Scope::new(black_box(&card), None)).is_ok()),
        mask_compile: each(|| Template::parse(black_box(&mask)).is_ok()),
        mask_evaluate: each(|| template.evaluate(&Scope::new(black_box(&card), None)).is_ok()),
    })
}

/// The median of rounds: a neighbour on the machine disturbs some, not most.
pub(crate) fn each(work: impl Fn() -> bool) -> f64 {
    const ROUNDS: usize = 31;
    const TURNS: u32 = 5_000;
    let round = || -> Duration {
        let began = now();
        for _ in 0..TURNS {
            black_box(work());
        }
        began.elapsed()
    };
    let mut rounds: Vec<_> = (0..ROUNDS).map(|_| round()).collect();
    rounds.sort_unstable();
    let median = rounds.get(ROUNDS / 2).copied().unwrap_or_default();
    median.as_secs_f64() * 1e9 / f64::from(TURNS)
}
