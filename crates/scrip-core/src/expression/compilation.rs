//! Compilation and caching of expressions, and their host functions.

use std::{cell::Cell, sync::LazyLock};

use scrip_expression::{
    Expression, ExpressionCache, ExpressionError, HmacAlgorithm, HostFunctions, Template,
};
use scrip_seal::KeyedHash;
use serde_json::Value;

use crate::{types::metrics::CacheMetrics, work_meter::WorkMeter};

/// Compiled expressions. Tenants use the same expressions for many tokens. The cache is bounded and
/// shared by all tenants: a compiled expression does not depend on its writer.
static EXPRESSION_CACHE: LazyLock<ExpressionCache> =
    LazyLock::new(|| ExpressionCache::new(EXPRESSIONS_MAX, EXPRESSIONS_BYTES_MAX));

const EXPRESSIONS_MAX: usize = 4096;
const EXPRESSIONS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Hits and misses of the expression cache. The cache and its counts are per process.
pub fn cache_metrics() -> CacheMetrics {
    let (hits, misses) = EXPRESSION_CACHE.hit_and_miss_counts();
    CacheMetrics { hits, misses, entries: EXPRESSION_CACHE.len().try_into().unwrap_or(u64::MAX) }
}

const RANDOM_RULE: &str = "must not create an alias: its value would differ each time";

/// A result from metadata would always be empty here.
const METADATA_RULE: &str = "must not use metadata: only a fingerprint expression can read it";

/// Parsing a byte of an expression costs about as much as reading this many bytes.
const PARSE_WORK: usize = 2;

/// Parses an expression, or takes it from the cache, and charges the work.
/// Errors: the text is not a valid expression.
pub(crate) fn compile(
    work: &WorkMeter,
    source: &str,
) -> Result<std::sync::Arc<Expression>, ExpressionError> {
    work.charge(source.len().saturating_mul(PARSE_WORK));
    EXPRESSION_CACHE.parse(source)
}

/// Compiles an expression that must always give the same value.
/// Errors: the text is not a valid expression, or it creates an alias.
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

/// Compiles an expression that has no access to the metadata of the token.
/// Errors: the text is not a valid expression, or it reads metadata.
pub(crate) fn compile_for_data(
    work: &WorkMeter,
    source: &str,
) -> Result<std::sync::Arc<Expression>, ExpressionError> {
    let expression = compile(work, source)?;
    reject_metadata(expression.reads_metadata())?;
    Ok(expression)
}

pub(crate) fn reject_metadata(reads_metadata: bool) -> Result<(), ExpressionError> {
    if reads_metadata {
        return Err(ExpressionError { position: 1, problem: METADATA_RULE });
    }
    Ok(())
}

/// Compiles a mask: a JSON value with an expression in every text.
/// Errors: a leaf is not a valid expression, creates an alias, or reads metadata.
pub(crate) fn compile_mask(work: &WorkMeter, source: &Value) -> Result<Template, ExpressionError> {
    work.charge(scrip_expression::value_cost(source).saturating_mul(PARSE_WORK));
    let template = Template::parse_cached(source, &EXPRESSION_CACHE)?;
    if template.is_random() {
        return Err(ExpressionError { position: 1, problem: RANDOM_RULE });
    }
    reject_metadata(template.reads_metadata())?;
    Ok(template)
}

/// Host functions with repeatable random bytes: after a rewind, an expression creates the same
/// alias again.
pub(crate) struct ReplayableRandom {
    seed: [u8; 32],
    blocks_generated: Cell<u64>,
}

impl ReplayableRandom {
    pub(crate) fn new(fill_random: fn(&mut [u8])) -> Self {
        let mut seed = [0; 32];
        fill_random(&mut seed);
        Self { seed, blocks_generated: Cell::new(0) }
    }

    /// For expressions that use no random bytes.
    pub(crate) fn unseeded() -> Self {
        Self { seed: [0; 32], blocks_generated: Cell::new(0) }
    }

    pub(crate) fn rewind(&self) {
        self.blocks_generated.set(0);
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
            let block_index = self.blocks_generated.get();
            self.blocks_generated.set(block_index.wrapping_add(1));
            let block = KeyedHash::Sha256.digest(&self.seed, &block_index.to_be_bytes());
            chunk.iter_mut().zip(block).for_each(|(target, byte)| *target = byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replayable_random_repeats_after_rewind_and_differs_between_seeds() {
        let take_bytes = |random: &ReplayableRandom| {
            let mut bytes = [0; 70];
            random.fill_random(&mut bytes);
            bytes
        };
        let random = ReplayableRandom::new(scrip_seal::fill_random);
        let (first_bytes, second_bytes) = (take_bytes(&random), take_bytes(&random));
        assert_ne!(first_bytes, second_bytes);
        assert_ne!(first_bytes[..32], first_bytes[32..64]);
        random.rewind();
        assert_eq!(take_bytes(&random), first_bytes);
        assert_ne!(take_bytes(&ReplayableRandom::new(scrip_seal::fill_random)), first_bytes);
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

    #[test]
    fn expressions_without_access_to_metadata_reject_it() {
        let work = WorkMeter::default();
        for source in ["{{ metadata.a }}", "{{ data | append: metadata.a }}"] {
            assert!(compile(&work, source).is_ok());
            let mask = compile_mask(&work, &serde_json::json!({ "a": source })).map(drop);
            for result in [compile_for_data(&work, source).map(drop), mask] {
                let problem = result.unwrap_err().problem;
                assert_eq!(problem, METADATA_RULE, "{source}");
            }
        }
        assert!(compile_for_data(&work, "{{ data.metadata }}").is_ok());
    }
}
