//! Dual control: actions of operators that wait for the approval of a second operator.

pub mod ledger;

use std::{fmt, time::Duration};

use scrip_seal::{AuditKey, Mac, Place};

use crate::{Timestamp, types::id::VaultId};

/// How long a request can be approved, and an approval be used.
pub(crate) const APPROVAL_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of open requests.
pub const OPEN_APPROVALS_MAX: usize = 100;
/// Maximum number of open requests of one user, who must not block the others.
pub const OPEN_APPROVALS_PER_USER_MAX: usize = 20;
const ACTION_BYTES_MAX: usize = 4096;

/// Digits and letters without i, l, o and u, which are easy to confuse.
const ID_ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const ID_CHARS: usize = 8;

/// The id of a request: short, because a person types it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApprovalId(String);

impl ApprovalId {
    pub fn random(fill_random: fn(&mut [u8])) -> Self {
        let mut bytes = [0; ID_CHARS];
        fill_random(&mut bytes);
        let to_char = |it: &u8| ID_ALPHABET.get(usize::from(*it) % ID_ALPHABET.len());
        Self(bytes.iter().filter_map(to_char).map(|it| char::from(*it)).collect())
    }

    /// Accepts capital letters too. `None` if the text has another form.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let is_valid = text.len() == ID_CHARS && text.bytes().all(|it| ID_ALPHABET.contains(&it));
        is_valid.then_some(Self(text))
    }

    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An action with its exact parameters, as the second operator reads it. Printable ASCII, so that a
/// terminal shows all of it and executes nothing of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionText(String);

impl ActionText {
    /// `None` if the text is empty, too long, or not printable ASCII.
    pub fn parse(text: &str) -> Option<Self> {
        let is_printable = text.bytes().all(|it| (b' '..=b'~').contains(&it));
        let is_valid = is_printable && (1..=ACTION_BYTES_MAX).contains(&text.len());
        is_valid.then(|| Self(text.to_owned()))
    }

    /// The name of a command, and its parameters in JSON. `None` if the text is too long.
    pub fn new(command: &str, parameters: &serde_json::Value) -> Option<Self> {
        let mut text = format!("{command} ");
        for it in parameters.to_string().chars() {
            match it {
                ' '..='~' => text.push(it),
                other => {
                    let units = other.encode_utf16(&mut [0; 2]).to_vec();
                    text.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
                }
            }
        }
        Self::parse(&text)
    }

    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ActionText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A request of an operator, which a second operator may have approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRecord {
    pub id: ApprovalId,
    pub action: ActionText,
    /// Operating-system user of the requester, from the kernel.
    pub requested_by: u32,
    pub requested_at: Timestamp,
    pub expires_at: Timestamp,
    pub approved_by: Option<u32>,
    pub approved_at: Option<Timestamp>,
    pub mac: Mac,
}

impl ApprovalRecord {
    pub fn is_approved(&self) -> bool {
        self.approved_by.is_some_and(|it| it != self.requested_by) && self.approved_at.is_some()
    }

    pub fn is_expired(&self, now: Timestamp) -> bool {
        now >= self.expires_at
    }

    /// Sets the MAC over all columns.
    #[must_use]
    pub fn signed(mut self, key: &AuditKey, vault: VaultId) -> Self {
        self.mac = key.mac_with_newest(&self.mac_place(vault));
        self
    }

    fn is_authentic(&self, key: &AuditKey, vault: VaultId) -> bool {
        key.verifies(&self.mac_place(vault), &self.mac)
    }

    fn has_newest_mac(&self, key: &AuditKey, vault: VaultId) -> bool {
        self.mac.constant_time_eq(&key.mac_with_newest(&self.mac_place(vault)))
    }

    fn mac_place(&self, vault: VaultId) -> Place {
        Place::new("approval")
            .text(&vault.to_string())
            .text(self.id.text())
            .text(self.action.text())
            .number(self.requested_by.into())
            .number(self.requested_at.unix_ms)
            .number(self.expires_at.unix_ms)
            .optional_number(self.approved_by.map(Into::into))
            .optional_number(self.approved_at.map(|it| it.unix_ms))
    }
}

/// Whether dual control is on, and which requests are open.
///
/// A MAC of a request alone would not show that the request was used: a writer of the database could
/// insert the row again. So this row lists the MACs of the open requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DualControlRecord {
    pub is_on: bool,
    /// Every change increments it. A lower number than before is a rollback.
    pub sequence: i64,
    /// The MACs of the open requests, one after the other.
    pub members: Vec<u8>,
    pub changed_at: Timestamp,
    pub mac: Mac,
}

impl DualControlRecord {
    /// Sets the MAC over all columns.
    #[must_use]
    pub fn signed(mut self, key: &AuditKey, vault: VaultId) -> Self {
        self.mac = key.mac_with_newest(&self.mac_place(vault));
        self
    }

    pub fn is_authentic(&self, key: &AuditKey, vault: VaultId) -> bool {
        key.verifies(&self.mac_place(vault), &self.mac)
    }

    fn mac_place(&self, vault: VaultId) -> Place {
        Place::new("dual control")
            .text(&vault.to_string())
            .number(self.is_on.into())
            .number(self.sequence)
            .bytes(&self.members)
            .number(self.changed_at.unix_ms)
    }
}

/// The row of dual control as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum StoredDualControl {
    /// Dual control was never on.
    #[default]
    Missing,
    /// The vault did not write this row.
    Unreadable,
    Present(DualControlRecord),
}

/// The stored rows, which are not verified yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredApprovals {
    pub dual_control: StoredDualControl,
    pub requests: Vec<ApprovalRecord>,
    /// Number of requests that cannot be read, so the vault did not write them.
    pub unreadable: usize,
}

/// A change of dual control or of its requests, in one transaction.
#[derive(Debug, Clone)]
pub struct ApprovalChange {
    /// The row as it was read. If it has changed, nothing is written.
    pub expected: StoredDualControl,
    pub dual_control: DualControlRecord,
    /// Inserted, or replaced if there is a row with its id.
    pub put: Option<ApprovalRecord>,
    pub deleted: Vec<ApprovalId>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn approval_ids_are_easy_to_type() {
        let id = ApprovalId::random(|bytes| bytes.copy_from_slice(&[0, 31, 32, 63, 10, 1, 2, 255]));
        assert_eq!(id.text(), "0z0za12z");
        assert_eq!(ApprovalId::parse(" 0Z0ZA12Z "), Some(id));
        for text in ["", "0z0za12", "0z0za12zz", "0z0za12u", "0z0za12'"] {
            assert_eq!(ApprovalId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn action_text_is_printable_ascii_of_bounded_length() {
        let action =
            ActionText::new("application create", &json!({"name": "Ü\u{1b}[2J\u{202e}💳"}));
        let expected = r#"application create {"name":"\u00dc\u001b[2J\u202e\ud83d\udcb3"}"#;
        assert_eq!(action.unwrap().text(), expected);
        assert!(ActionText::new("export", &json!({"file": "x".repeat(5000)})).is_none());
        for text in ["", "a\nb", "a\u{7f}", "ü"] {
            assert_eq!(ActionText::parse(text), None, "{text:?}");
        }
    }

    /// The parameters in another order are the same action.
    #[test]
    fn action_text_sorts_its_parameters() {
        let [one, other] = [json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1})];
        assert_eq!(ActionText::new("backup", &one), ActionText::new("backup", &other));
    }
}
