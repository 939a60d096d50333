//! The key of the audit trail: one for the whole vault, so that what was recorded of a tenant can
//! be verified when its own keys are gone.

use crate::{
    KeySource, KeySourceError, Mac, Place, Sealed, Secret, digest::DigestKey, random::random_bytes,
};

#[derive(Debug)]
pub struct AuditKey(DigestKey);

impl AuditKey {
    /// A new one and its wrapped form for the store.
    ///
    /// # Errors
    /// The key source did not answer.
    pub fn create(source: &dyn KeySource) -> Result<(Self, Sealed), KeySourceError> {
        let key = Secret::new(random_bytes::<32>().to_vec());
        let wrapped = source.wrap(&Self::place(), &key)?;
        Ok((Self::from_key(&key), wrapped))
    }

    /// # Errors
    /// The key source did not answer, or it is not the one that wrapped this key.
    pub fn unwrap(source: &dyn KeySource, wrapped: &Sealed) -> Result<Self, KeySourceError> {
        Ok(Self::from_key(&source.unwrap(&Self::place(), wrapped)?))
    }

    /// Over all that the place is made of.
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
        let other = root("ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=");
        assert!(AuditKey::unwrap(&other, &wrapped).is_err());
        let (_, pepper) = Pepper::create(&source).unwrap();
        assert!(AuditKey::unwrap(&source, &pepper).is_err());
    }
}
