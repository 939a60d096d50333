//! The audit trail key. One key covers the whole vault, so the records of a tenant stay verifiable
//! after its own keys are destroyed.
//!
//! A compromise of the vault key replaces the audit key. Nodes learn the new key first
//! ([`AuditKeyPhase::Added`]), then sign with it ([`AuditKeyPhase::Active`]), and accept it alone
//! for heads of chains in the end ([`AuditKeyPhase::Closed`]). Old keys stay to verify old records:
//! the head authenticates the last link, and each link is a digest of the record before it.

mod payload;

use std::sync::{Arc, PoisonError, RwLock};

use crate::{
    KeySource, KeySourceError, Mac, Place, Sealed, Secret, digest::DigestKey, random::random_bytes,
};

pub use self::payload::{AuditKeyPhase, KeyHistory};
use self::payload::{AuditPayload, MethodId};

/// The key of the audit trail. All holders of one value see a replacement at the same time.
pub struct AuditKey(RwLock<Arc<DerivedKeys>>);

/// The keys, oldest first, and what the vault remembers with them.
struct DerivedKeys {
    newest: DigestKey,
    /// The newest one first.
    older: Vec<DigestKey>,
    history: KeyHistory,
    removed: Vec<MethodId>,
}

impl DerivedKeys {
    fn derive(payload: &AuditPayload) -> Self {
        let derive = |it: &Secret| DigestKey::new(it, "audit trail");
        let (newest, older) = payload.newest_and_older();
        Self {
            newest: derive(newest),
            older: older.iter().rev().map(derive).collect(),
            history: payload.history,
            removed: payload.removed.clone(),
        }
    }

    fn signer(&self) -> &DigestKey {
        match (self.history.phase, self.older.first()) {
            (AuditKeyPhase::Added, Some(previous)) => previous,
            (_, _) => &self.newest,
        }
    }
}

impl AuditKey {
    /// Creates a key and wraps it for the store.
    pub fn create(source: &dyn KeySource) -> Result<(Self, Sealed), KeySourceError> {
        let key = Secret::new(random_bytes::<32>().to_vec());
        let wrapped = source.wrap(&Self::place(), &key)?;
        Ok((Self::from_payload(&AuditPayload::parse(key.expose())?), wrapped))
    }

    /// Errors: the key source is unavailable, or another source wrapped this key.
    pub fn unwrap(source: &dyn KeySource, wrapped: &Sealed) -> Result<Self, KeySourceError> {
        let payload = AuditPayload::parse(source.unwrap(&Self::place(), wrapped)?.expose())?;
        Ok(Self::from_payload(&payload))
    }

    /// Wraps the stored key with another version of the vault key, which was created at this time.
    /// Errors: a key source is unavailable, or another source wrapped this key.
    pub fn rewrap(
        old: &dyn KeySource,
        new: &dyn KeySource,
        wrapped: &Sealed,
        now_ms: i64,
    ) -> Result<Sealed, KeySourceError> {
        Self::change(old, new, wrapped, |it| {
            it.history.vault_key_created_ms = Some(it.history.next_key_time(now_ms));
            it.removed.clear();
        })
    }

    /// Adds a new key after a compromise of the vault key, and wraps all keys with the new version
    /// of the vault key.
    /// Errors: a key source is unavailable, or another source wrapped this key.
    pub fn renew(
        old: &dyn KeySource,
        new: &dyn KeySource,
        wrapped: &Sealed,
        now_ms: i64,
    ) -> Result<Sealed, KeySourceError> {
        Self::change(old, new, wrapped, |it| {
            it.keys.push(Secret::new(random_bytes::<32>().to_vec()));
            it.removed.clear();
            it.history = KeyHistory {
                vault_key_created_ms: Some(it.history.next_key_time(now_ms)),
                compromised_ms: Some(now_ms),
                phase: AuditKeyPhase::Added,
                phase_since_ms: now_ms,
            };
        })
    }

    /// Wraps the keys again in another phase.
    /// Errors: the key source is unavailable, or another source wrapped this key.
    pub fn change_phase(
        source: &dyn KeySource,
        wrapped: &Sealed,
        phase: AuditKeyPhase,
        now_ms: i64,
    ) -> Result<Sealed, KeySourceError> {
        Self::change(source, source, wrapped, |it| {
            it.history.phase = phase;
            it.history.phase_since_ms = now_ms;
        })
    }

    /// Wraps the keys again with the id of an unlock method that is removed. `None` if too many
    /// methods were removed since the vault key was created.
    ///
    /// Errors: the key source is unavailable, or another source wrapped this key.
    pub fn with_removed_method(
        source: &dyn KeySource,
        wrapped: &Sealed,
        id: [u8; 16],
    ) -> Result<Option<Sealed>, KeySourceError> {
        let mut has_space = false;
        let changed = Self::change(source, source, wrapped, |it| has_space = it.add_removed(id))?;
        Ok(Some(changed).filter(|_| has_space))
    }

    fn change(
        old: &dyn KeySource,
        new: &dyn KeySource,
        wrapped: &Sealed,
        change: impl FnOnce(&mut AuditPayload),
    ) -> Result<Sealed, KeySourceError> {
        let mut payload = AuditPayload::parse(old.unwrap(&Self::place(), wrapped)?.expose())?;
        change(&mut payload);
        new.wrap(&Self::place(), &payload.to_secret())
    }

    /// Computes a MAC over every part of `place`.
    pub fn mac(&self, place: &Place) -> Mac {
        Mac(self.keys().signer().digest(&[place.as_bytes()]))
    }

    /// As [`AuditKey::mac`], with the newest key, for rows that are written with it.
    pub fn mac_with_newest(&self, place: &Place) -> Mac {
        Mac(self.keys().newest.digest(&[place.as_bytes()]))
    }

    /// Whether a key that is in use signed `place`. While nodes change to a new key, this is the new
    /// or the previous one.
    pub fn verifies(&self, place: &Place, mac: &Mac) -> bool {
        let keys = self.keys();
        let is_changing = keys.history.phase != AuditKeyPhase::Closed;
        let previous = keys.older.first().filter(|_| is_changing);
        let mut accepted = [Some(&keys.newest), previous].into_iter().flatten();
        accepted.any(|it| mac.constant_time_eq(&Mac(it.digest(&[place.as_bytes()]))))
    }

    /// Whether any key of this vault signed `place`, also one that was replaced. Another value must
    /// prove that the row is current.
    pub fn verifies_with_any(&self, place: &Place, mac: &Mac) -> bool {
        let keys = self.keys();
        let mut accepted = std::iter::once(&keys.newest).chain(&keys.older);
        accepted.any(|it| mac.constant_time_eq(&Mac(it.digest(&[place.as_bytes()]))))
    }

    /// When the vault key was created and compromised, and how far the change of this key is.
    pub fn history(&self) -> KeyHistory {
        self.keys().history
    }

    /// Whether this unlock method was removed since the vault key was created.
    pub fn is_removed_method(&self, id: [u8; 16]) -> bool {
        self.keys().removed.contains(&id)
    }

    /// Whether these keys can follow `before`: they have its newest key, and remember at least as
    /// much. Keys of another vault do not, and neither do keys of an older copy.
    pub fn continues(&self, before: &Self) -> bool {
        let place = Place::new("audit-key continuity");
        let (before, now) = (before.keys(), self.keys());
        let mac = Mac(before.newest.digest(&[place.as_bytes()]));
        let (created, created_before) =
            (now.history.vault_key_created_ms, before.history.vault_key_created_ms);
        let is_rotated = created > created_before;
        let remembers = before.removed.iter().all(|it| now.removed.contains(it));
        self.verifies_with_any(&place, &mac)
            && (is_rotated || (created == created_before && remembers))
    }

    /// Takes over the keys of a value that was loaded later.
    pub fn replace_with(&self, newer: &Self) {
        let keys = newer.keys();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    fn keys(&self) -> Arc<DerivedKeys> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn from_payload(payload: &AuditPayload) -> Self {
        Self(RwLock::new(Arc::new(DerivedKeys::derive(payload))))
    }

    fn place() -> Place {
        Place::new("audit-key")
    }
}

hide_in_debug! { AuditKey }

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

    #[test]
    fn renewed_audit_key_signs_and_verifies_by_phase() {
        let source = root("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
        let place = Place::new("row").text("a");
        let (old, wrapped) = AuditKey::create(&source).unwrap();
        assert_eq!(old.history(), KeyHistory::default());
        let added = AuditKey::renew(&source, &source, &wrapped, 5).unwrap();
        let open = |it: &Sealed| AuditKey::unwrap(&source, it).unwrap();
        let change = |phase| AuditKey::change_phase(&source, &added, phase, 7).unwrap();
        let [active, closed] = [AuditKeyPhase::Active, AuditKeyPhase::Closed].map(change);
        let (added, active, closed) = (open(&added), open(&active), open(&closed));
        assert_eq!(added.mac(&place), old.mac(&place));
        assert_ne!(active.mac(&place), old.mac(&place));
        assert_eq!(active.mac(&place), closed.mac(&place));
        assert_eq!(added.mac_with_newest(&place), active.mac(&place));
        for (name, key, accepts_old) in
            [("added", &added, true), ("active", &active, true), ("closed", &closed, false)]
        {
            assert_eq!(key.verifies(&place, &old.mac(&place)), accepts_old, "{name}");
            assert!(key.verifies(&place, &active.mac(&place)), "{name}");
            assert!(key.verifies_with_any(&place, &old.mac(&place)), "{name}");
            assert_eq!(key.history().compromised_ms, Some(5), "{name}");
        }
        assert!(!old.verifies_with_any(&place, &active.mac(&place)));
        old.replace_with(&closed);
        assert_eq!(old.mac(&place), closed.mac(&place));
    }

    #[test]
    fn audit_key_survives_rotations_with_its_history() {
        let source = root("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
        let other = root("ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=");
        let place = Place::new("row");
        let (created, wrapped) = AuditKey::create(&source).unwrap();
        let wrapped = AuditKey::rewrap(&source, &other, &wrapped, 3).unwrap();
        let rewrapped = AuditKey::unwrap(&other, &wrapped).unwrap();
        assert_eq!(created.mac(&place), rewrapped.mac(&place));
        let history = rewrapped.history();
        assert_eq!((history.vault_key_created_ms, history.compromised_ms), (Some(3), None));
        let wrapped = AuditKey::renew(&other, &source, &wrapped, 4).unwrap();
        let wrapped = AuditKey::rewrap(&source, &other, &wrapped, 5).unwrap();
        let history = AuditKey::unwrap(&other, &wrapped).unwrap().history();
        assert_eq!((history.vault_key_created_ms, history.compromised_ms), (Some(5), Some(4)));
        assert_eq!(history.phase, AuditKeyPhase::Added);
    }

    #[test]
    fn audit_key_continues_only_its_own_newest_state() {
        let source = root("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
        let open = |it: &Sealed| AuditKey::unwrap(&source, it).unwrap();
        let (first, wrapped) = AuditKey::create(&source).unwrap();
        let (other, _) = AuditKey::create(&source).unwrap();
        let remove = |it: &Sealed, id| AuditKey::with_removed_method(&source, it, id).unwrap();
        let removed = remove(&wrapped, [1; 16]).unwrap();
        let rotated = AuditKey::rewrap(&source, &source, &removed, 3).unwrap();
        let renewed = AuditKey::renew(&source, &source, &rotated, 4).unwrap();
        let states = [first, open(&removed), open(&rotated), open(&renewed)];
        for (index, state) in states.iter().enumerate() {
            for (earlier, before) in states.iter().enumerate() {
                assert_eq!(state.continues(before), earlier <= index, "{index} after {earlier}");
            }
            assert!(!other.continues(state) && !state.continues(&other), "{index}");
        }
        let is_removed = states.each_ref().map(|it| it.is_removed_method([1; 16]));
        assert_eq!(is_removed, [false, true, false, false]);
        // The clock of another node may be behind.
        let later = AuditKey::rewrap(&source, &source, &rotated, 2).unwrap();
        assert!(open(&later).continues(&states[2]) && !states[2].continues(&open(&later)));
        let mut full = removed;
        for id in 1..u8::MAX {
            full = remove(&full, [id; 16]).unwrap();
        }
        assert!(remove(&full, [0; 16]).is_none());
    }
}
