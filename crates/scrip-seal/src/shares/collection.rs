//! Collecting shares until there are enough of them.

use std::fmt;

use zeroize::Zeroizing;

use crate::{
    Secret,
    shares::{
        field::{interpolation_weights, multiply},
        label::ShareLabel,
        share::{Share, ShareError},
    },
};

/// The shares that holders have entered, all of one set. They are wiped when the collection is
/// dropped.
pub struct ShareCollection {
    label: ShareLabel,
    threshold: u8,
    shares: Vec<Share>,
}

/// How many shares a collection has, and how many reconstruct the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareProgress {
    pub have: u8,
    pub need: u8,
}

impl ShareProgress {
    pub fn is_complete(self) -> bool {
        self.have >= self.need
    }
}

impl ShareCollection {
    /// An empty collection for one set of shares. A caller that stores no threshold takes the one
    /// of the first share.
    pub fn new(label: ShareLabel, threshold: u8) -> Self {
        Self { label, threshold, shares: Vec::new() }
    }

    /// Adds a share. Shares beyond the threshold are accepted: [`ShareCollection::combine`] compares
    /// them with the others.
    ///
    /// Errors: the share belongs to another vault or set, or a share with its number was added
    /// before. The collection does not change then.
    pub fn add(&mut self, share: Share) -> Result<ShareProgress, ShareError> {
        if share.label.vault != self.label.vault {
            return Err(ShareError::OtherVault);
        }
        if share.label != self.label {
            return Err(ShareError::OtherSet);
        }
        let has_other_length = |it: &Share| it.value.expose().len() != share.value.expose().len();
        if share.threshold != self.threshold || self.shares.first().is_some_and(has_other_length) {
            return Err(ShareError::OtherForm);
        }
        let index = share.index;
        if let Some(existing) = self.shares.iter().find(|it| it.index == index) {
            let is_same = existing.value.constant_time_eq(share.value.expose());
            return Err(if is_same {
                ShareError::Repeated { index }
            } else {
                ShareError::Conflicting { index }
            });
        }
        self.shares.push(share);
        Ok(self.progress())
    }

    pub fn progress(&self) -> ShareProgress {
        // Numbers of shares are bytes and differ, so there are at most 255 shares.
        let have = u8::try_from(self.shares.len()).unwrap_or(u8::MAX);
        ShareProgress { have, need: self.threshold }
    }

    /// Reconstructs the secret.
    ///
    /// With exactly the threshold of shares, a forged share gives a wrong secret and no error. The
    /// caller must verify the secret before it uses it.
    /// Errors: there are too few shares, or shares beyond the threshold contradict the others.
    pub fn combine(&self) -> Result<Secret, ShareError> {
        let ShareProgress { have, need } = self.progress();
        let (base, further) = self
            .shares
            .split_at_checked(usize::from(need))
            .filter(|(base, _)| !base.is_empty())
            .ok_or(ShareError::TooFew { have, need })?;
        for share in further {
            if !share.value.constant_time_eq(interpolate(base, share.index).expose()) {
                return Err(ShareError::Inconsistent);
            }
        }
        Ok(interpolate(base, 0))
    }
}

impl fmt::Debug for ShareCollection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShareProgress { have, need } = self.progress();
        write!(f, "ShareCollection({}, {have}/{need})", self.label)
    }
}

/// The values at `x` of the polynomials through all these shares. The secret is at zero.
pub(super) fn interpolate(shares: &[Share], x: u8) -> Secret {
    let indexes: Vec<_> = shares.iter().map(|it| it.index).collect();
    let length = shares.first().map_or(0, |it| it.value.expose().len());
    let mut sum = Zeroizing::new(vec![0; length]);
    for (share, weight) in shares.iter().zip(interpolation_weights(&indexes, x)) {
        for (to, from) in sum.iter_mut().zip(share.value.expose()) {
            *to ^= multiply(weight, *from);
        }
    }
    Secret::new(std::mem::take(&mut *sum))
}
