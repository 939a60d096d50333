//! Contexts, keys and expectations that the tests share.

use std::sync::Arc;

use scrip_seal::Secret;
use scrip_unlock::{UnlockContext, UnlockError, UnlockSource, WallClock};

/// September 2026: before the temporary credentials of `moto` expire.
pub(crate) const NOW: i64 = 1_790_000_000;

pub(crate) fn fixed_clock() -> WallClock {
    Arc::new(|| NOW)
}

pub(crate) fn vault_key() -> Secret {
    Secret::new((0..32).collect())
}

pub(crate) fn context(kind: &'static str) -> UnlockContext {
    UnlockContext {
        vault: "vault-1".to_owned(),
        method: "method-1".to_owned(),
        kind,
        key_version: 1,
    }
}

/// Contexts that differ from `context` in one part each.
pub(crate) fn other_contexts(kind: &'static str) -> Vec<UnlockContext> {
    let original = context(kind);
    vec![
        UnlockContext { vault: "vault-2".to_owned(), ..original.clone() },
        UnlockContext { method: "method-2".to_owned(), ..original.clone() },
        UnlockContext { kind: "another", ..original.clone() },
        UnlockContext { key_version: 2, ..original },
    ]
}

/// Wraps and unwraps a key. Returns the wrapped key.
pub(crate) async fn assert_round_trip(source: &dyn UnlockSource, kind: &'static str) -> Vec<u8> {
    let wrapped = source.wrap(&context(kind), &vault_key()).await.unwrap();
    let key = source.unwrap(&context(kind), &wrapped).await.unwrap();
    assert_eq!(key.expose(), vault_key().expose());
    let contains_key = wrapped.windows(32).any(|it| it == vault_key().expose());
    assert!(!contains_key, "the wrapped key contains the key");
    wrapped
}

/// Unwraps in every other context.
pub(crate) async fn assert_other_contexts_are_rejected(
    source: &dyn UnlockSource,
    kind: &'static str,
    wrapped: &[u8],
) {
    for other in other_contexts(kind) {
        let result = source.unwrap(&other, wrapped).await;
        assert!(matches!(result, Err(UnlockError::Rejected(_))), "{other:?}: {result:?}");
    }
}

/// The name of the variant, and the text.
pub(crate) fn describe<T: std::fmt::Debug>(result: Result<T, UnlockError>) -> (String, String) {
    let error = result.unwrap_err();
    let variant = format!("{error:?}");
    let (variant, _) = variant.split_once('(').unwrap();
    (variant.to_owned(), error.to_string())
}

/// Fails unless the error has this variant and its text contains all parts.
#[track_caller]
pub(crate) fn assert_error<T: std::fmt::Debug>(
    result: Result<T, UnlockError>,
    expected_variant: &str,
    parts: &[&str],
) {
    let (variant, text) = describe(result);
    assert_eq!(variant, expected_variant, "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}
