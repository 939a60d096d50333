//! The heads of all chains, for a small file that is kept apart: whoever brings back an older
//! database, with heads and all, is found by it.
//!
//! Lines of text, the last of which is a mac of those before.

use std::cmp::Ordering;

use scrip_seal::{AuditKey, Mac, Place};

use crate::{
    audit::{ChainHead, LogKind},
    id::TenantId,
    store::{Store, StoreError},
    time::Timestamp,
};

const TITLE: &str = "scrip audit heads 1";

/// Up to where a chain had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedHead {
    pub log: LogKind,
    pub tenant: TenantId,
    pub sequence: i64,
    pub link: Mac,
}

impl SavedHead {
    #[must_use]
    pub fn from_head(log: LogKind, head: &ChainHead) -> Self {
        Self { log, tenant: head.tenant, sequence: head.sequence, link: head.link }
    }
}

/// What such a file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedHeads {
    pub saved_at: Timestamp,
    pub heads: Vec<SavedHead>,
}

impl SavedHeads {
    #[must_use]
    pub fn to_text(&self, key: &AuditKey) -> String {
        let mut text = format!("{TITLE}\n{}\n", self.saved_at.unix_ms);
        for SavedHead { log, tenant, sequence: n, link } in &self.heads {
            text += &format!("{} {tenant} {n} {}\n", log.as_str(), link.to_hex());
        }
        let mac = file_mac(key, &text);
        text + &mac.to_hex() + "\n"
    }

    /// Nothing when it is not what [`KeptHeads::to_text`] wrote with this key.
    #[must_use]
    pub fn parse(key: &AuditKey, text: &str) -> Option<Self> {
        let (lines, last) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        let signed = text.get(..lines.len().checked_add(1)?)?;
        if !Mac::from_hex(last)?.constant_time_eq(&file_mac(key, signed)) {
            return None;
        }
        let mut lines = lines.lines();
        if lines.next()? != TITLE {
            return None;
        }
        let at = Timestamp { unix_ms: lines.next()?.parse().ok()? };
        Some(Self { saved_at: at, heads: lines.map(parse_head).collect::<Option<_>>()? })
    }
}

/// What became of a chain since its head was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadChange {
    Unchanged,
    /// It is longer. Whether it is still the same is for [`still_has`] to say: a fork grows too.
    Advanced,
    /// It is gone, shorter, or ends otherwise. That is not to be forgotten: it is what the file is
    /// for.
    RolledBack,
}

impl SavedHead {
    #[must_use]
    pub fn change_to(&self, current: Option<&Self>) -> HeadChange {
        let Some(now) = current else { return HeadChange::RolledBack };
        match now.sequence.cmp(&self.sequence) {
            Ordering::Less => HeadChange::RolledBack,
            Ordering::Equal if now.link.constant_time_eq(&self.link) => HeadChange::Unchanged,
            Ordering::Equal => HeadChange::RolledBack,
            Ordering::Greater => HeadChange::Advanced,
        }
    }
}

/// Whether a chain has the record that was its last, or has pruned it.
///
/// # Errors
/// The store does not answer.
pub async fn chain_contains(
    store: &dyn Store,
    key: &AuditKey,
    saved: &SavedHead,
) -> Result<bool, StoreError> {
    let found =
        store.list_records(saved.log, saved.tenant, saved.sequence.saturating_sub(1), 1).await?;
    if let Some(record) = found.first().filter(|it| it.sequence == saved.sequence) {
        return Ok(record.link.constant_time_eq(&saved.link));
    }
    // Asked after the record: it may have been pruned just now, and what is pruned stays so.
    let checkpoint = store.find_checkpoint(saved.log, saved.tenant).await?;
    Ok(checkpoint.filter(|it| it.has_valid_mac(key, saved.log)).is_some_and(|it| {
        it.sequence > saved.sequence
            || (it.sequence == saved.sequence && it.link.constant_time_eq(&saved.link))
    }))
}

fn file_mac(key: &AuditKey, text: &str) -> Mac {
    key.mac(&Place::new("audit.heads").text(text))
}

fn parse_head(line: &str) -> Option<SavedHead> {
    let mut words = line.split(' ');
    let log = LogKind::parse(words.next()?)?;
    let tenant = TenantId::parse(words.next()?)?;
    let n = words.next()?.parse().ok()?;
    let link = Mac::from_hex(words.next()?)?;
    words.next().is_none().then_some(SavedHead { log, tenant, sequence: n, link })
}
