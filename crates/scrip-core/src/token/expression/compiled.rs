//! Expressions compiled, and what they may reach outside of the token.

use std::{cell::Cell, sync::LazyLock};

use scrip_expression::{
    Expression, ExpressionCache, ExpressionError, HmacAlgorithm, Outside, Template,
};
use scrip_seal::KeyedHash;
use serde_json::Value;

use crate::{measure::CacheMeasures, token::WorkMeter};

/// What a tenant writes once it uses with every token. Bounded, and shared by all: a compiled
/// expression is the same whoever wrote it.
static COMPILED: LazyLock<ExpressionCache> =
    LazyLock::new(|| ExpressionCache::new(EXPRESSIONS_MAX, EXPRESSIONS_BYTES_MAX));

const EXPRESSIONS_MAX: usize = 4096;
const EXPRESSIONS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How often an expression was there already. The cache is the process's, and so are its counts.
#[must_use]
pub fn measures() -> CacheMeasures {
    let (hits, misses) = COMPILED.looked_up();
    CacheMeasures { hits, misses, entries: COMPILED.len().try_into().unwrap_or(u64::MAX) }
}

const RANDOM: &str = "must not make an alias: it would be another one each time";

/// A byte of an expression takes about as long to parse as this many bytes to read.
const PARSE_WORK: usize = 2;

/// # Errors
/// The text is no expression.
pub(crate) fn compile(
    work: &WorkMeter,
    source: &str,
) -> Result<std::sync::Arc<Expression>, ExpressionError> {
    work.charge(source.len().saturating_mul(PARSE_WORK));
    COMPILED.parse(source)
}

/// One whose value must be the same whenever it is evaluated.
///
/// # Errors
/// The text is no expression, or makes an alias.
pub(crate) fn compile_steady(
    work: &WorkMeter,
    source: &str,
) -> Result<std::sync::Arc<Expression>, ExpressionError> {
    let expression = compile(work, source)?;
    if expression.is_random() {
        return Err(ExpressionError { position: 1, problem: RANDOM });
    }
    Ok(expression)
}

/// # Errors
/// A leaf is no expression, or makes an alias.
pub(crate) fn compile_mask(work: &WorkMeter, source: &Value) -> Result<Template, ExpressionError> {
    work.charge(scrip_expression::weight(source).saturating_mul(PARSE_WORK));
    let template = Template::parse_cached(source, &COMPILED)?;
    if template.is_random() {
        return Err(ExpressionError { position: 1, problem: RANDOM });
    }
    Ok(template)
}

/// Keyed hashes, and the chance of one draw: evaluated again with the same draw, an expression makes
/// the same alias.
pub(crate) struct Draw {
    seed: [u8; 32],
    taken: Cell<u64>,
}

impl Draw {
    pub(crate) fn new(chance: fn(&mut [u8])) -> Self {
        let mut seed = [0; 32];
        chance(&mut seed);
        Self { seed, taken: Cell::new(0) }
    }

    /// For expressions that take none.
    pub(crate) fn none() -> Self {
        Self { seed: [0; 32], taken: Cell::new(0) }
    }

    pub(crate) fn begin_again(&self) {
        self.taken.set(0);
    }
}

impl Outside for Draw {
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
            let at = self.taken.get();
            self.taken.set(at.wrapping_add(1));
            let drawn = KeyedHash::Sha256.digest(&self.seed, &at.to_be_bytes());
            chunk.iter_mut().zip(drawn).for_each(|(to, from)| *to = from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_can_be_repeated_and_no_two_are_alike() {
        let taken = |draw: &Draw| {
            let mut bytes = [0; 70];
            draw.fill_random(&mut bytes);
            bytes
        };
        let draw = Draw::new(scrip_seal::fill_random);
        let (first, second) = (taken(&draw), taken(&draw));
        assert_ne!(first, second);
        assert_ne!(first[..32], first[32..64]);
        draw.begin_again();
        assert_eq!(taken(&draw), first);
        assert_ne!(taken(&Draw::new(scrip_seal::fill_random)), first);
    }

    #[test]
    fn what_must_be_steady_makes_no_alias() {
        let work = WorkMeter::default();
        let alias = "{{ data | alias_preserve_length: 0, 4 }}";
        assert!(compile(&work, alias).is_ok());
        assert!(compile_steady(&work, alias).is_err());
        assert!(compile_mask(&work, &serde_json::json!(["{{ data | alias_card }}"])).is_err());
        assert!(compile_steady(&work, "{{ data | hmac: 'sha-256', 'k' | to_base16 }}").is_ok());
    }
}
