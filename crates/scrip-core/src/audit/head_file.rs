//! The heads of all chains, for a small file that is kept apart: whoever brings back an older
//! database, with heads and all, is found by it.
//!
//! Lines of text, the last of which is a mac of those before.

use std::cmp::Ordering;

use scrip_seal::{AuditKey, Mac, Place};

use crate::{
    audit::{Head, Log},
    id::TenantId,
    store::{Store, StoreError},
    time::Timestamp,
};

const TITLE: &str = "scrip audit heads 1";

/// Up to where a chain had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptHead {
    pub log: Log,
    pub tenant: TenantId,
    pub n: i64,
    pub link: Mac,
}

impl KeptHead {
    #[must_use]
    pub fn of(log: Log, head: &Head) -> Self {
        Self { log, tenant: head.tenant, n: head.n, link: head.link }
    }
}

/// What such a file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptHeads {
    pub at: Timestamp,
    pub heads: Vec<KeptHead>,
}

impl KeptHeads {
    #[must_use]
    pub fn to_text(&self, key: &AuditKey) -> String {
        let mut text = format!("{TITLE}\n{}\n", self.at.unix_ms);
        for KeptHead { log, tenant, n, link } in &self.heads {
            text += &format!("{} {tenant} {n} {}\n", log.as_str(), link.to_hex());
        }
        let mac = mac(key, &text);
        text + &mac.to_hex() + "\n"
    }

    /// Nothing when it is not what [`KeptHeads::to_text`] wrote with this key.
    #[must_use]
    pub fn parse(key: &AuditKey, text: &str) -> Option<Self> {
        let (lines, last) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        let signed = text.get(..lines.len().checked_add(1)?)?;
        if !Mac::from_hex(last)?.is(&mac(key, signed)) {
            return None;
        }
        let mut lines = lines.lines();
        if lines.next()? != TITLE {
            return None;
        }
        let at = Timestamp { unix_ms: lines.next()?.parse().ok()? };
        Some(Self { at, heads: lines.map(head).collect::<Option<_>>()? })
    }
}

/// What became of a chain since its head was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Went {
    Nowhere,
    /// It is longer. Whether it is still the same is for [`still_has`] to say: a fork grows too.
    On,
    /// It is gone, shorter, or ends otherwise. That is not to be forgotten: it is what the file is
    /// for.
    Back,
}

impl KeptHead {
    #[must_use]
    pub fn went(&self, now: Option<&Self>) -> Went {
        let Some(now) = now else { return Went::Back };
        match now.n.cmp(&self.n) {
            Ordering::Less => Went::Back,
            Ordering::Equal if now.link.is(&self.link) => Went::Nowhere,
            Ordering::Equal => Went::Back,
            Ordering::Greater => Went::On,
        }
    }
}

/// Whether a chain has the record that was its last, or has pruned it.
///
/// # Errors
/// The store does not answer.
pub async fn still_has(
    store: &dyn Store,
    key: &AuditKey,
    then: &KeptHead,
) -> Result<bool, StoreError> {
    let found = store.list_records(then.log, then.tenant, then.n.saturating_sub(1), 1).await?;
    if let Some(record) = found.first().filter(|it| it.n == then.n) {
        return Ok(record.link.is(&then.link));
    }
    // Asked after the record: it may have been pruned just now, and what is pruned stays so.
    let checkpoint = store.find_checkpoint(then.log, then.tenant).await?;
    Ok(checkpoint
        .filter(|it| it.is_ours(key, then.log))
        .is_some_and(|it| it.n > then.n || (it.n == then.n && it.link.is(&then.link))))
}

fn mac(key: &AuditKey, text: &str) -> Mac {
    key.mac(&Place::new("audit.heads").text(text))
}

fn head(line: &str) -> Option<KeptHead> {
    let mut words = line.split(' ');
    let log = Log::parse(words.next()?)?;
    let tenant = TenantId::parse(words.next()?)?;
    let n = words.next()?.parse().ok()?;
    let link = Mac::from_hex(words.next()?)?;
    words.next().is_none().then_some(KeptHead { log, tenant, n, link })
}
