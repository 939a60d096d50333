//! Expressions compiled, and what they may reach outside of the token.

use std::{cell::Cell, sync::LazyLock};

use scrip_expression::{
    Expression, ExpressionCache, ExpressionError, HmacAlgorithm, HostFunctions, Template,
};
use scrip_seal::KeyedHash;
use serde_json::Value;

use crate::{metrics::CacheMetrics, token::WorkMeter};

/// What a tenant writes once it uses with every token. Bounded, and shared by all: a compiled
/// expression is the same whoever wrote it.
static EXPRESSION_CACHE: LazyLock<ExpressionCache> =
    LazyLock::new(|| ExpressionCache::new(EXPRESSIONS_MAX, EXPRESSIONS_BYTES_MAX));

const EXPRESSIONS_MAX: usize = 4096;
const EXPRESSIONS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How often an expression was there already. The cache is the process's, and so are its counts.
#[must_use]
pub fn cache_metrics() -> CacheMetrics {
    let (hits, misses) = EXPRESSION_CACHE.hit_and_miss_counts();
    CacheMetrics { hits, misses, entries: EXPRESSION_CACHE.len().try_into().unwrap_or(u64::MAX) }
}

const RANDOM_RULE: &str = "must not make an alias: it would be another one each time";

/// A byte of an expression takes about as long to parse as this many bytes to read.
const PARSE_WORK: usize = 2;

/// # Errors
/// The text is no expression.
pub(crate) fn compile(
    work: &WorkMeter,
    source: &str,
) -> Result<std::sync::Arc<Expression>, ExpressionError> {
    work.charge(source.len().saturating_mul(PARSE_WORK));
    EXPRESSION_CACHE.parse(source)
}

/// One whose value must be the same whenever it is evaluated.
///
/// # Errors
/// The text is no expression, or makes an alias.
pub(crate) fn compile_deterministic(
    work: &WorkMeter,
    source: &str,
) -> Result<std::sync::Arc<Expression>, ExpressionError> {
    let expression = compile(work, source)?;
    if expression.is_random() {
        return Err(ExpressionError { position: 1, problem: RANDOM_RULE });
    }
    Ok(expression)
}

/// # Errors
/// A leaf is no expression, or makes an alias.
pub(crate) fn compile_mask(work: &WorkMeter, source: &Value) -> Result<Template, ExpressionError> {
    work.charge(scrip_expression::value_cost(source).saturating_mul(PARSE_WORK));
    let template = Template::parse_cached(source, &EXPRESSION_CACHE)?;
    if template.is_random() {
        return Err(ExpressionError { position: 1, problem: RANDOM_RULE });
    }
    Ok(template)
}

/// Keyed hashes, and the chance of one draw: evaluated again with the same draw, an expression makes
/// the same alias.
pub(crate) struct ReplayableRandom {
    seed: [u8; 32],
    blocks_drawn: Cell<u64>,
}

impl ReplayableRandom {
    pub(crate) fn new(fill_random: fn(&mut [u8])) -> Self {
        let mut seed = [0; 32];
        fill_random(&mut seed);
        Self { seed, blocks_drawn: Cell::new(0) }
    }

    /// For expressions that take none.
    pub(crate) fn unseeded() -> Self {
        Self { seed: [0; 32], blocks_drawn: Cell::new(0) }
    }

    pub(crate) fn rewind(&self) {
        self.blocks_drawn.set(0);
    }
}

impl HostFunctions for ReplayableRandom {
    fn hmac(&self, algorithm: HmacAlgorithm, key: &[u8], message: &[u8]) -> Vec<u8> {
        let hash = match algorithm {
            HmacAlgorithm::Sha1 => KeyedHash::Sha1,
            HmacAlgorithm::Sha256 => KeyedHash::Sha256,
            HmacAlgorithm::Sha512 => KeyedHash::Sha512,
        };
        hash.digest(key, message)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(32) {
            let at = self.blocks_drawn.get();
            self.blocks_drawn.set(at.wrapping_add(1));
            let drawn = KeyedHash::Sha256.digest(&self.seed, &at.to_be_bytes());
            chunk.iter_mut().zip(drawn).for_each(|(to, from)| *to = from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replayable_random_repeats_after_rewind_and_differs_between_seeds() {
        let taken = |draw: &ReplayableRandom| {
            let mut bytes = [0; 70];
            draw.fill_random(&mut bytes);
            bytes
        };
        let draw = ReplayableRandom::new(scrip_seal::fill_random);
        let (first, second) = (taken(&draw), taken(&draw));
        assert_ne!(first, second);
        assert_ne!(first[..32], first[32..64]);
        draw.rewind();
        assert_eq!(taken(&draw), first);
        assert_ne!(taken(&ReplayableRandom::new(scrip_seal::fill_random)), first);
    }

    #[test]
    fn deterministic_expressions_and_masks_reject_aliases() {
        let work = WorkMeter::default();
        let alias = "{{ data | alias_preserve_length: 0, 4 }}";
        assert!(compile(&work, alias).is_ok());
        assert!(compile_deterministic(&work, alias).is_err());
        assert!(compile_mask(&work, &serde_json::json!(["{{ data | alias_card }}"])).is_err());
        assert!(
            compile_deterministic(&work, "{{ data | hmac: 'sha-256', 'k' | to_base16 }}").is_ok()
        );
    }
}
