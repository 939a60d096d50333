//! A cache of compiled expressions.
//!
//! A tenant has a few masks and indexes and uses them in every request. An expression that is used
//! once does not evict one that is used often. Errors are not cached: invalid expressions are rare,
//! and caching them would let one caller evict the expressions of others.

use std::{hash::RandomState, sync::Arc};

use quick_cache::{
    Options, OptionsBuilder, Weighter,
    sync::{Cache, DefaultLifecycle},
};

use crate::{Expression, ExpressionError};

const SHARDS: usize = 16;
/// The approximate size of a compiled expression is [`TREE_BASE_BYTES`] plus this number for each
/// byte of its source.
const TREE_BYTES_PER_SOURCE_BYTE: usize = 16;
const TREE_BASE_BYTES: usize = 512;

/// A bounded cache that all threads share.
pub struct ExpressionCache {
    /// `None` if not even one expression fits.
    cache: Option<Cache<Arc<str>, Arc<Expression>, ExpressionWeighter, RandomState>>,
}

/// The weight of an expression: its approximate bytes, but at least the byte limit divided by the
/// count limit, so that the byte limit also limits the count.
#[derive(Clone)]
struct ExpressionWeighter {
    min_weight: usize,
}

impl Weighter<Arc<str>, Arc<Expression>> for ExpressionWeighter {
    fn weight(&self, source: &Arc<str>, _: &Arc<Expression>) -> u64 {
        let bytes =
            source.len().saturating_mul(TREE_BYTES_PER_SOURCE_BYTE).saturating_add(TREE_BASE_BYTES);
        u64::try_from(bytes.max(self.min_weight)).unwrap_or(u64::MAX)
    }
}

impl std::fmt::Debug for ExpressionCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ExpressionCache({} expressions)", self.len())
    }
}

impl ExpressionCache {
    /// At most `count_max` expressions of about `bytes_max` bytes together.
    pub fn new(count_max: usize, bytes_max: usize) -> Self {
        let cache = cache_options(count_max, bytes_max).map(|options| {
            let weight = ExpressionWeighter { min_weight: bytes_max.div_ceil(count_max.max(1)) };
            let lifecycle = DefaultLifecycle::default();
            Cache::with_options(options, weight, RandomState::new(), lifecycle)
        });
        Self { cache }
    }

    /// Errors: as [`Expression::parse`].
    pub fn parse(&self, source: &str) -> Result<Arc<Expression>, ExpressionError> {
        let Some(cache) = &self.cache else { return Expression::parse(source).map(Arc::new) };
        if let Some(expression) = cache.get(source) {
            return Ok(expression);
        }
        let expression = Arc::new(Expression::parse(source)?);
        cache.insert(source.into(), Arc::clone(&expression));
        Ok(expression)
    }

    /// The number of hits and misses so far.
    pub fn hit_and_miss_counts(&self) -> (u64, u64) {
        self.cache.as_ref().map_or((0, 0), |it| (it.hits(), it.misses()))
    }

    pub fn len(&self) -> usize {
        self.cache.as_ref().map_or(0, Cache::len)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// `None` if not even one expression fits.
fn cache_options(count_max: usize, bytes_max: usize) -> Option<Options> {
    let count = count_max.min(bytes_max / TREE_BASE_BYTES);
    let bytes = u64::try_from(bytes_max).ok().filter(|_| count > 0)?;
    let mut options = OptionsBuilder::new();
    options.shards(SHARDS).estimated_items_capacity(count).weight_capacity(bytes).build().ok()
}
