//! The cache.

use std::sync::Arc;

use scrip_expression::{ExpressionCache, Scope, Template};
use serde_json::json;

#[test]
fn cache_hit_returns_the_same_expression() {
    let cache = ExpressionCache::new(100, 1 << 20);
    assert!(cache.is_empty());
    let first = cache.parse("{{ data | last4 }}").unwrap();
    assert!(Arc::ptr_eq(&first, &cache.parse("{{ data | last4 }}").unwrap()));
    assert!(!Arc::ptr_eq(&first, &cache.parse("{{ data | last4}}").unwrap()));
    assert_eq!(cache.len(), 2);
    let template = Template::parse_cached(&json!(["{{ data | last4 }}"]), &cache).unwrap();
    assert_eq!(template.evaluate(&Scope::new(&json!("123456"), None)).unwrap(), json!(["3456"]));
    assert_eq!(cache.len(), 2);
}

#[test]
fn parse_errors_are_not_cached() {
    let cache = ExpressionCache::new(100, 1 << 20);
    assert!(cache.parse("{{").is_err());
    assert!(cache.parse("{{").is_err());
    assert_eq!(cache.len(), 0);
}

#[test]
fn cache_is_bounded_by_count_and_bytes() {
    let by_count = ExpressionCache::new(64, 1 << 30);
    let by_bytes = ExpressionCache::new(1 << 20, 64 * 2048);
    for at in 0..10_000 {
        by_count.parse(&format!("{{{{ data.p{at} }}}}")).unwrap();
        by_bytes.parse(&format!("{{{{ data.p{at} }}}}")).unwrap();
    }
    assert!((16..=64).contains(&by_count.len()), "{}", by_count.len());
    assert!((64..=64 * 4).contains(&by_bytes.len()), "{}", by_bytes.len());
    let none = ExpressionCache::new(0, 0);
    assert!(none.parse("{{ data }}").is_ok() && none.is_empty());
}

#[test]
fn frequently_used_expression_is_not_evicted() {
    let cache = ExpressionCache::new(64, 1 << 30);
    let favourite = cache.parse("{{ data.favourite }}").unwrap();
    for at in 0..10_000 {
        cache.parse(&format!("{{{{ data.p{at} }}}}")).unwrap();
        let repeated = cache.parse("{{ data.favourite }}").unwrap();
        assert!(Arc::ptr_eq(&favourite, &repeated), "{at}");
    }
}

#[test]
fn cache_is_shared_between_threads() {
    let cache = ExpressionCache::new(32, 1 << 20);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let cache = &cache;
            scope.spawn(move || {
                for at in 0..2_000 {
                    let expected = (at + thread) % 50;
                    let expression = cache.parse(&format!("{{{{ {expected} }}}}")).unwrap();
                    let value = expression.evaluate(&Scope::new(&json!(null), None)).unwrap();
                    assert_eq!(value, json!(expected));
                }
            });
        }
    });
    assert!(cache.len() <= 32);
}
