//! Shares that people entered to unseal the vault, until enough of them open it.
//!
//! The checksum of a share has no key, so an operator can enter forged ones. They must not stop the
//! others: an operator has one share, the combinations are tried, and a combination that opens
//! nothing forgets nothing.

use std::{collections::BTreeMap, time::Duration};

use scrip_seal::{Secret, Share, ShareCollection, ShareError, ShareLabel};

/// How long entered shares stay in memory.
pub(super) const SHARE_TIME: Duration = Duration::from_secs(10 * 60);
/// A collection has room for this many shares beyond the threshold.
const EXTRA_SHARES_MAX: usize = 32;
/// One new share tries this many combinations with the others.
const COMBINATIONS_MAX: u32 = 2_000;
/// Bounds the search among shares with the same number.
const STEPS_MAX: u32 = 100_000;
/// The numbers of shares that are recorded for one operator.
const RECORDED_INDEXES_MAX: usize = 8;

/// The person who enters a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareHolder {
    pub uid: u32,
    /// Root or the server's user, whose terminal several people use.
    pub is_trusted: bool,
}

/// The entered shares of one set, oldest first.
pub(crate) struct EnteredShares {
    set: ShareLabel,
    threshold: u8,
    shares: Vec<EnteredShare>,
    last_entry: Duration,
    /// How often a person entered a share with this number. For the audit log, which cannot be
    /// written before the vault is open.
    entries: BTreeMap<(u32, u8), u32>,
}

struct EnteredShare {
    holder: ShareHolder,
    index: u8,
    /// The text, from which each combination makes its own copy.
    text: Secret,
}

/// How often a person entered a share with this number, and whether the share opened the vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ShareEntry {
    pub(super) uid: u32,
    pub(super) index: u8,
    pub(super) times: u32,
    pub(super) has_opened: bool,
}

/// What a combination of shares opened.
#[derive(Debug)]
pub(super) struct OpenedShares {
    pub(super) key: Secret,
    pub(super) entries: Vec<ShareEntry>,
}

impl std::fmt::Debug for EnteredShares {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EnteredShares({}, {}/{})", self.set, self.shares.len(), self.threshold)
    }
}

impl EnteredShares {
    pub(super) fn new(set: ShareLabel, threshold: u8) -> Self {
        let (shares, last_entry, entries) = (Vec::new(), Duration::ZERO, BTreeMap::new());
        Self { set, threshold, shares, last_entry, entries }
    }

    pub(super) fn set(&self) -> ShareLabel {
        self.set
    }

    pub(super) fn is_expired(&self, now: Duration) -> bool {
        now.saturating_sub(self.last_entry) >= SHARE_TIME
    }

    /// The number of shares that count together: those with different numbers.
    pub(super) fn count(&self) -> usize {
        let mut indexes: Vec<_> = self.shares.iter().map(|it| it.index).collect();
        indexes.sort_unstable();
        indexes.dedup();
        indexes.len()
    }

    pub(super) fn is_complete(&self) -> bool {
        self.count() >= usize::from(self.threshold)
    }

    /// Adds a share. It replaces the earlier one of an operator.
    /// Errors: the share has another threshold, it was entered before, or there are too many.
    pub(super) fn add(
        &mut self,
        share: &Share,
        holder: ShareHolder,
        now: Duration,
    ) -> Result<(), ShareError> {
        if share.label() != self.set {
            return Err(ShareError::OtherSet);
        }
        if share.threshold() != self.threshold {
            return Err(ShareError::OtherForm);
        }
        let (index, text) = (share.index(), share.to_text());
        if self.shares.iter().any(|it| it.text.constant_time_eq(text.expose())) {
            return Err(ShareError::Repeated { index });
        }
        if !holder.is_trusted {
            self.shares.retain(|it| it.holder != holder);
        }
        if self.shares.len() >= usize::from(self.threshold).saturating_add(EXTRA_SHARES_MAX) {
            let oldest_operator = self.shares.iter().position(|it| !it.holder.is_trusted);
            match (oldest_operator, holder.is_trusted) {
                (Some(at), _) => drop(self.shares.remove(at)),
                (None, true) => drop(self.shares.remove(0)),
                (None, false) => return Err(ShareError::Conflicting { index }),
            }
        }
        self.shares.push(EnteredShare { holder, index, text });
        self.last_entry = now;
        self.count_entry(holder, index);
        Ok(())
    }

    fn count_entry(&mut self, holder: ShareHolder, index: u8) {
        let of_holder = self.entries.keys().filter(|(uid, _)| *uid == holder.uid).count();
        let is_recorded = self.entries.contains_key(&(holder.uid, index));
        if holder.is_trusted || is_recorded || of_holder < RECORDED_INDEXES_MAX {
            let times = self.entries.entry((holder.uid, index)).or_default();
            *times = times.saturating_add(1);
        }
    }

    /// Tries the combinations with the newest share. Those of the server's user come first.
    pub(super) fn open(
        &self,
        try_open: impl FnMut(&ShareCollection) -> Option<Secret>,
    ) -> Option<OpenedShares> {
        let (newest, others) = self.shares.split_last()?;
        let mut others: Vec<_> = others.iter().collect();
        others.sort_by_key(|it| !it.holder.is_trusted);
        let mut search = Search {
            set: self.set,
            threshold: self.threshold,
            chosen: vec![newest],
            combinations_left: COMBINATIONS_MAX,
            steps_left: STEPS_MAX,
            try_open,
        };
        let key = search.run(&others)?;
        let has_opened =
            |uid, index| search.chosen.iter().any(|it| (it.holder.uid, it.index) == (uid, index));
        let entries = self.entries.iter().map(|((uid, index), times)| ShareEntry {
            uid: *uid,
            index: *index,
            times: *times,
            has_opened: has_opened(*uid, *index),
        });
        Some(OpenedShares { key, entries: entries.collect() })
    }
}

/// The search for a combination that opens the vault.
struct Search<'a, F> {
    set: ShareLabel,
    threshold: u8,
    chosen: Vec<&'a EnteredShare>,
    combinations_left: u32,
    steps_left: u32,
    try_open: F,
}

impl<'a, F: FnMut(&ShareCollection) -> Option<Secret>> Search<'a, F> {
    /// Completes the chosen shares with some of the others. If they open the vault, they stay chosen.
    fn run(&mut self, others: &[&'a EnteredShare]) -> Option<Secret> {
        let missing = usize::from(self.threshold).saturating_sub(self.chosen.len());
        if missing == 0 {
            self.combinations_left = self.combinations_left.saturating_sub(1);
            return self.try_chosen();
        }
        let mut rest = others;
        while let Some((next, after)) = rest.split_first().filter(|_| rest.len() >= missing) {
            if self.combinations_left == 0 || self.steps_left == 0 {
                return None;
            }
            self.steps_left = self.steps_left.saturating_sub(1);
            rest = after;
            if self.chosen.iter().any(|it| it.index == next.index) {
                continue;
            }
            self.chosen.push(next);
            if let Some(key) = self.run(after) {
                return Some(key);
            }
            self.chosen.pop();
        }
        None
    }

    fn try_chosen(&mut self) -> Option<Secret> {
        let mut collection = ShareCollection::new(self.set, self.threshold);
        for share in &self.chosen {
            let text = str::from_utf8(share.text.expose()).ok()?;
            collection.add(Share::parse(text).ok()?).ok()?;
        }
        (self.try_open)(&collection)
    }
}

#[cfg(test)]
mod tests {
    use scrip_seal::split_secret;

    use super::*;

    const ROOT: ShareHolder = ShareHolder { uid: 0, is_trusted: true };
    const NOW: Duration = Duration::from_secs(5);

    fn operator(uid: u32) -> ShareHolder {
        ShareHolder { uid, is_trusted: false }
    }

    fn split(label: ShareLabel, byte: u8, threshold: u8) -> Vec<Share> {
        split_secret(&Secret::new(vec![byte; 32]), label, threshold, 5).unwrap()
    }

    /// The shares of a secret, and others with the same numbers.
    fn honest_and_forged(threshold: u8) -> (EnteredShares, Vec<Share>, Vec<Share>) {
        let label = ShareLabel::create("vault");
        let entered = EnteredShares::new(label, threshold);
        (entered, split(label, 7, threshold), split(label, 8, threshold))
    }

    fn open(entered: &EnteredShares) -> Option<OpenedShares> {
        entered.open(|it| it.combine().ok().filter(|it| it.constant_time_eq(&[7; 32])))
    }

    #[test]
    fn forged_share_before_or_between_two_shares_does_not_stop_them() {
        for (forged_index, is_forged_first) in [(0, false), (1, false), (2, false), (2, true)] {
            let (mut entered, honest, forged) = honest_and_forged(2);
            let mut first = [(&honest[0], operator(1)), (&forged[forged_index], operator(2))];
            if is_forged_first {
                first.reverse();
            }
            for (share, holder) in first {
                assert!(!entered.is_complete());
                entered.add(share, holder, NOW).unwrap();
                assert!(open(&entered).is_none());
            }
            entered.add(&honest[1], operator(3), NOW).unwrap();
            assert!(entered.is_complete());
            let opened = open(&entered).unwrap();
            assert_eq!(opened.key.expose(), [7; 32]);
            let used: Vec<_> = opened.entries.iter().map(|it| (it.uid, it.has_opened)).collect();
            assert_eq!(used, [(1, true), (2, false), (3, true)]);
        }
    }

    #[test]
    fn shares_of_one_operator_use_one_slot() {
        let (mut entered, honest, _) = honest_and_forged(3);
        entered.add(&honest[0], ROOT, NOW).unwrap();
        entered.add(&honest[1], operator(1), NOW).unwrap();
        for number in 0..200 {
            let forged = split(entered.set(), 8, 3);
            entered.add(&forged[number % 5], operator(2), NOW).unwrap();
            assert_eq!(entered.shares.len(), 3);
            assert!(open(&entered).is_none());
        }
        entered.add(&honest[2], ROOT, NOW).unwrap();
        let opened = open(&entered).unwrap();
        let forged: Vec<_> = opened.entries.iter().filter(|it| it.uid == 2).collect();
        assert_eq!(forged.len(), 5);
        assert!(forged.iter().all(|it| it.times == 40 && !it.has_opened), "{forged:?}");
    }

    #[test]
    fn shares_of_the_server_user_are_all_kept_and_tried() {
        let (mut entered, honest, forged) = honest_and_forged(3);
        for share in forged.iter().take(2).chain(honest.iter().take(3)) {
            entered.add(share, ROOT, NOW).unwrap();
        }
        assert!(open(&entered).is_some());
        let repeated = entered.add(&honest[0], ROOT, NOW);
        assert_eq!(repeated, Err(ShareError::Repeated { index: 1 }));
    }

    #[test]
    fn shares_of_operators_are_dropped_before_those_of_the_server_user() {
        let (mut entered, honest, _) = honest_and_forged(2);
        entered.add(&honest[0], ROOT, NOW).unwrap();
        for uid in 1..100 {
            entered.add(&split(entered.set(), 8, 2)[1], operator(uid), NOW).unwrap();
        }
        assert_eq!(entered.shares.len(), 34);
        entered.add(&honest[2], operator(100), NOW).unwrap();
        assert!(open(&entered).is_some());
    }

    #[test]
    fn number_of_tried_combinations_is_bounded() {
        let (mut entered, ..) = honest_and_forged(5);
        for number in 0..37 {
            entered.add(&split(entered.set(), 8, 5)[number % 5], ROOT, NOW).unwrap();
        }
        let mut tried = 0;
        let opened = entered.open(|_| {
            tried += 1;
            None
        });
        assert!(opened.is_none());
        assert_eq!(tried, COMBINATIONS_MAX);
    }

    #[test]
    fn entered_shares_expire_ten_minutes_after_the_last_one() {
        let (mut entered, honest, _) = honest_and_forged(3);
        entered.add(&honest[0], ROOT, NOW).unwrap();
        assert!(!entered.is_expired(Duration::from_secs(604)));
        assert!(entered.is_expired(Duration::from_secs(605)));
    }
}
