//! The heads of all chains, for a small file that is kept apart: whoever brings back an older
//! database, with heads and all, is found by it.
//!
//! Lines of text, the last of which is a mac of those before.

use std::collections::BTreeMap;

use scrip_seal::{AuditKey, Mac, Place};

use crate::{
    audit::chain::{Head, Log},
    id::TenantId,
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
            text += &format!("{} {tenant} {n} {}\n", log.as_str(), hex(&link.0));
        }
        let mac = mac(key, &text);
        text + &hex(&mac.0) + "\n"
    }

    /// Nothing when it is not what [`KeptHeads::to_text`] wrote with this key.
    #[must_use]
    pub fn parse(key: &AuditKey, text: &str) -> Option<Self> {
        let (lines, last) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        let signed = text.get(..lines.len().checked_add(1)?)?;
        if !Mac(unhex(last)?).is(&mac(key, signed)) {
            return None;
        }
        let mut lines = lines.lines();
        if lines.next()? != TITLE {
            return None;
        }
        let at = Timestamp { unix_ms: lines.next()?.parse().ok()? };
        Some(Self { at, heads: lines.map(head).collect::<Option<_>>()? })
    }

    /// Whether every chain of the other is here too, and at least as long. One that has become
    /// shorter is not to be forgotten: it is what the file is for.
    #[must_use]
    pub fn follows(&self, before: &Self) -> bool {
        let now: BTreeMap<_, _> = self.heads.iter().map(|it| ((it.log, it.tenant), it)).collect();
        before.heads.iter().all(|then| {
            now.get(&(then.log, then.tenant))
                .is_some_and(|it| it.n > then.n || (it.n == then.n && it.link.is(&then.link)))
        })
    }
}

impl KeptHeads {
    /// What is kept next: of each chain what is here, or what was before where that has become
    /// shorter or is gone. So one that went back stays found, and the others are kept on.
    #[must_use]
    pub fn onto(&self, before: &Self) -> Self {
        let of = |it: &KeptHead| ((it.log, it.tenant), *it);
        let mut heads: BTreeMap<_, _> = self.heads.iter().map(of).collect();
        for then in &before.heads {
            let went_back = heads.get(&(then.log, then.tenant)).is_none_or(|it| it.n <= then.n);
            if went_back {
                heads.insert((then.log, then.tenant), *then);
            }
        }
        Self { at: self.at, heads: heads.into_values().collect() }
    }
}

fn mac(key: &AuditKey, text: &str) -> Mac {
    key.mac(&Place::new("audit.heads").text(text))
}

fn head(line: &str) -> Option<KeptHead> {
    let mut words = line.split(' ');
    let log = Log::parse(words.next()?)?;
    let tenant = TenantId::parse(words.next()?)?;
    let n = words.next()?.parse().ok()?;
    let link = Mac(unhex(words.next()?)?);
    words.next().is_none().then_some(KeptHead { log, tenant, n, link })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let plain = text.bytes().all(|it| it.is_ascii_digit() || (b'a'..=b'f').contains(&it));
    let digit = |at: usize| u8::from_str_radix(text.get(at..at.checked_add(2)?)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(digit).collect();
    bytes.filter(|_| plain)?.try_into().ok()
}
