//! The cost of expressions: compilation and evaluation in this process, and as a share of a read.

use std::{hint::black_box, sync::Arc, time::Duration};

use scrip_expression::{Expression, ExpressionCache, Scope, Template};
use serde_json::{Value, json};

use crate::harness::clock::now;

const REVEAL: &str = "{{ data.number | reveal_last: 4 }}";

/// All values in nanoseconds.
#[derive(Debug)]
pub(crate) struct ExpressionCost {
    pub(crate) compile: f64,
    pub(crate) compile_cached: f64,
    pub(crate) evaluate: f64,
    pub(crate) mask_compile: f64,
    pub(crate) mask_evaluate: f64,
}

fn sample_card() -> Value {
    json!({"number": "4242424242424242", "expiration_month": 7, "expiration_year": 2031})
}

fn sample_mask() -> Value {
    json!({
        "number": "{{ data.number | card_mask: 'true', 'true' }}",
        "bin": "{{ data.number | card_bin }}",
        "last4": "{{ data.number | last4 }}",
        "expiration_month": "{{ data.expiration_month }}",
        "expiration_year": "{{ data.expiration_year }}",
        "text": "card ending in {{ data.number | reveal_last: 4 }}",
    })
}

pub(crate) fn measure_expressions() -> anyhow::Result<ExpressionCost> {
    let (card, mask) = (sample_card(), sample_mask());
    let expression = Expression::parse(REVEAL)?;
    let template = Template::parse(&mask)?;
    let cache = ExpressionCache::new(1024, 1024 * 1024);
    cache.parse(REVEAL)?;
    Ok(ExpressionCost {
        compile: nanos_per_call(|| Expression::parse(black_box(REVEAL)).is_ok()),
        compile_cached: nanos_per_call(|| {
            cache.parse(black_box(REVEAL)).map(|it: Arc<_>| drop(it)).is_ok()
        }),
        evaluate: nanos_per_call(|| {
            expression.evaluate(&Scope::new(black_box(&card), None)).is_ok()
        }),
        mask_compile: nanos_per_call(|| Template::parse(black_box(&mask)).is_ok()),
        mask_evaluate: nanos_per_call(|| {
            template.evaluate(&Scope::new(black_box(&card), None)).is_ok()
        }),
    })
}

/// The median of several rounds: other load on the machine disturbs some of them, not most.
pub(crate) fn nanos_per_call(work: impl Fn() -> bool) -> f64 {
    const ROUND_COUNT: usize = 31;
    const CALLS_PER_ROUND: u32 = 5_000;
    let measure_round = || -> Duration {
        let start = now();
        for _ in 0..CALLS_PER_ROUND {
            black_box(work());
        }
        start.elapsed()
    };
    let mut rounds: Vec<_> = (0..ROUND_COUNT).map(|_| measure_round()).collect();
    rounds.sort_unstable();
    let median = rounds.get(ROUND_COUNT / 2).copied().unwrap_or_default();
    median.as_secs_f64() * 1e9 / f64::from(CALLS_PER_ROUND)
}
