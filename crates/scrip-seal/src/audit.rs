//! The audit trail key. One key covers the whole vault, so the records of a tenant stay verifiable
//! after its own keys are destroyed.

use crate::{
    KeySource, KeySourceError, Mac, Place, Sealed, Secret, digest::DigestKey, random::random_bytes,
    root::vault_key::rewrap,
};

#[derive(Debug)]
pub struct AuditKey(DigestKey);

impl AuditKey {
    /// Creates a key and wraps it for the store.
    ///
    /// # Errors
    /// The key source is unavailable.
    pub fn create(source: &dyn KeySource) -> Result<(Self, Sealed), KeySourceError> {
        let key = Secret::new(random_bytes::<32>().to_vec());
        let wrapped = source.wrap(&Self::place(), &key)?;
        Ok((Self::from_key(&key), wrapped))
    }

    /// # Errors
    /// The key source is unavailable, or another source wrapped this key.
    pub fn unwrap(source: &dyn KeySource, wrapped: &Sealed) -> Result<Self, KeySourceError> {
        Ok(Self::from_key(&source.unwrap(&Self::place(), wrapped)?))
    }

    /// Wraps the stored key with another source.
    ///
    /// # Errors
    /// A key source is unavailable, or another source wrapped this key.
    pub fn rewrap(
        old: &dyn KeySource,
        new: &dyn KeySource,
        wrapped: &Sealed,
    ) -> Result<Sealed, KeySourceError> {
        rewrap(old, new, &Self::place(), wrapped)
    }

    /// Computes a MAC over every part of `place`.
    #[must_use]
    pub fn mac(&self, place: &Place) -> Mac {
        Mac(self.0.digest(&[place.as_bytes()]))
    }

    fn from_key(key: &Secret) -> Self {
        Self(DigestKey::new(key, "audit trail"))
    }

    fn place() -> Place {
        Place::new("audit-key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pepper, RootKey};

    fn root(text: &str) -> RootKey {
        RootKey::from_text(text).unwrap()
    }

    #[test]
    fn unwrapped_audit_key_computes_the_same_macs() {
        let source = root("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
        let (created, wrapped) = AuditKey::create(&source).unwrap();
        let opened = AuditKey::unwrap(&source, &wrapped).unwrap();
        let [one, other] = ["a", "b"].map(|it| Place::new("row").text(it));
        assert_eq!(created.mac(&one), opened.mac(&one));
        assert_ne!(created.mac(&one), created.mac(&other));
        let (second, _) = AuditKey::create(&source).unwrap();
        assert_ne!(created.mac(&one), second.mac(&one));
    }

    #[test]
    fn audit_key_unwraps_only_with_its_root_key_and_place() {
        let source = root("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
        let (_, wrapped) = AuditKey::create(&source).unwrap();
        let other_root = root("ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=");
        assert!(AuditKey::unwrap(&other_root, &wrapped).is_err());
        let (_, pepper) = Pepper::create(&source).unwrap();
        assert!(AuditKey::unwrap(&source, &pepper).is_err());
    }
}
