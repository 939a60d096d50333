//! The heads of all chains in a small file outside of the database. The file reveals a rollback to
//! an older database with its older heads.
//!
//! The file has lines of text. The last line is a MAC of the lines before.

use scrip_seal::{AuditKey, Mac, Place};

use crate::{
    Timestamp,
    audit::{LogKind, SavedHead},
    store::Store,
    types::{StoreError, id::TenantId},
};

const TITLE: &str = "scrip audit heads 1";

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedHeads {
    pub saved_at: Timestamp,
    pub heads: Vec<SavedHead>,
}

impl SavedHeads {
    pub fn to_text(&self, key: &AuditKey) -> String {
        let mut text = format!("{TITLE}\n{}\n", self.saved_at.unix_ms);
        for SavedHead { log, tenant, sequence, link } in &self.heads {
            text += &format!("{} {tenant} {sequence} {}\n", log.as_str(), link.to_hex());
        }
        let mac = key.mac(&file_place(&text));
        text + &mac.to_hex() + "\n"
    }

    /// `None` when the text is not the output of [`SavedHeads::to_text`] with this key.
    pub fn parse(key: &AuditKey, text: &str) -> Option<Self> {
        let (lines, mac_line) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        let signed_text = text.get(..lines.len().checked_add(1)?)?;
        // A server writes the file again soon after the audit key was replaced.
        if !key.verifies_with_any(&file_place(signed_text), &Mac::from_hex(mac_line)?) {
            return None;
        }
        let mut lines = lines.lines();
        if lines.next()? != TITLE {
            return None;
        }
        let saved_at = Timestamp { unix_ms: lines.next()?.parse().ok()? };
        Some(Self { saved_at, heads: lines.map(parse_head).collect::<Option<_>>()? })
    }
}

/// Whether a chain still has the saved record, or has pruned it.
pub async fn chain_contains(
    store: &dyn Store,
    key: &AuditKey,
    saved: &SavedHead,
) -> Result<bool, StoreError> {
    let records =
        store.list_records(saved.log, saved.tenant, saved.sequence.saturating_sub(1), 1).await?;
    if let Some(record) = records.first().filter(|it| it.sequence == saved.sequence) {
        return Ok(record.link.constant_time_eq(&saved.link));
    }
    // Read after the record: the record may have been pruned in between, and a pruned record stays
    // pruned.
    let checkpoint = store.find_checkpoint(saved.log, saved.tenant).await?;
    Ok(checkpoint.filter(|it| it.has_valid_mac(key, saved.log)).is_some_and(|it| {
        it.sequence > saved.sequence
            || (it.sequence == saved.sequence && it.link.constant_time_eq(&saved.link))
    }))
}

fn file_place(text: &str) -> Place {
    Place::new("audit.heads").text(text)
}

fn parse_head(line: &str) -> Option<SavedHead> {
    let mut words = line.split(' ');
    let log = LogKind::parse(words.next()?)?;
    let tenant = TenantId::parse(words.next()?)?;
    let sequence = words.next()?.parse().ok()?;
    let link = Mac::from_hex(words.next()?)?;
    words.next().is_none().then_some(SavedHead { log, tenant, sequence, link })
}
