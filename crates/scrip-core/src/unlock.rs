//! The unlock methods of a vault: each row has the vault key, wrapped by one method.

use scrip_seal::{AuditKey, KeyHistory, Mac, Place, VaultKey};

use crate::{
    Timestamp,
    types::id::{UnlockId, VaultId},
};

/// How an unlock method gets the vault key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UnlockKind {
    /// A wrapping key in a file.
    File,
    /// A wrapping key in a variable of the environment.
    Env,
    /// A wrapping key in a hardware security module.
    Pkcs11,
    AwsKms,
    /// The Transit engine of Vault or OpenBao.
    Transit,
    /// A wrapping key that people combine from their shares.
    Shamir,
}

impl UnlockKind {
    pub const ALL: [Self; 6] =
        [Self::File, Self::Env, Self::Pkcs11, Self::AwsKms, Self::Transit, Self::Shamir];

    /// The name in the row, in commands and in the context of a wrapped key.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Env => "env",
            Self::Pkcs11 => "pkcs11",
            Self::AwsKms => "aws-kms",
            Self::Transit => "transit",
            Self::Shamir => "shamir",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == text)
    }

    /// Whether the server asks a service on a network, which may be slow or away.
    pub const fn is_remote(self) -> bool {
        matches!(self, Self::AwsKms | Self::Transit)
    }

    /// Whether people must enter shares. The server cannot ask such a method.
    pub const fn needs_people(self) -> bool {
        matches!(self, Self::Shamir)
    }
}

/// Whether an unlock method counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnlockState {
    /// The holders of the shares have not entered them yet.
    Pending,
    Active,
}

impl UnlockState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Active => "active",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Pending, Self::Active].into_iter().find(|it| it.as_str() == text)
    }
}

/// One unlock method with its wrapped vault key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnlockRecord {
    pub id: UnlockId,
    pub kind: UnlockKind,
    pub label: String,
    /// A JSON object that says where the wrapping key is. It contains no secret.
    pub parameters: String,
    pub wrapped: Vec<u8>,
    /// The version of the wrapped vault key.
    pub key_version: u32,
    pub created_at: Timestamp,
    /// When the method last returned the vault key. Not part of the MAC: every node writes it.
    pub checked_at: Option<Timestamp>,
    pub state: UnlockState,
    pub mac: Mac,
}

impl UnlockRecord {
    /// Sets the MAC over all columns. A changed parameter could make the vault wrap its next key
    /// with a key of the attacker.
    #[must_use]
    pub fn signed(mut self, key: &AuditKey, vault: VaultId) -> Self {
        self.mac = key.mac_with_newest(&self.mac_place(vault));
        self
    }

    /// Whether the row is as the vault wrote it, and was not removed. Only an open vault can check
    /// this.
    pub fn is_authentic(&self, key: &AuditKey, vault: VaultId) -> bool {
        // A compromise signs all rows with the new key, so the old one is never accepted.
        self.mac.constant_time_eq(&key.mac_with_newest(&self.mac_place(vault)))
            && !key.is_removed_method(*self.id.0.as_bytes())
    }

    fn mac_place(&self, vault: VaultId) -> Place {
        Place::new("unlock method")
            .text(&vault.to_string())
            .text(&self.id.to_string())
            .text(self.kind.as_str())
            .text(&self.label)
            .text(&self.parameters)
            .bytes(&self.wrapped)
            .number(self.key_version.into())
            .number(self.created_at.unix_ms)
            .text(self.state.as_str())
    }
}

/// The id of a vault and the version of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VaultIdentity {
    pub id: VaultId,
    pub key_version: u32,
}

/// All unlock methods. Without an identity, the root key of the settings is the vault key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VaultUnlocks {
    pub identity: Option<VaultIdentity>,
    pub methods: Vec<UnlockRecord>,
    /// Number of rows that cannot be read, so the vault did not write them.
    pub unreadable: usize,
}

impl VaultUnlocks {
    /// Whether the vault was created without unlock methods, so that the root key is its vault key.
    pub fn is_legacy(&self) -> bool {
        self.identity.is_none() && self.methods.is_empty() && self.unreadable == 0
    }

    pub fn key_version(&self) -> u32 {
        self.identity.map_or(VaultKey::FIRST_VERSION, |it| it.key_version)
    }

    /// The methods that open the vault.
    pub fn active_methods(&self) -> impl Iterator<Item = &UnlockRecord> {
        let version = self.key_version();
        self.methods
            .iter()
            .filter(move |it| it.state == UnlockState::Active && it.key_version == version)
    }

    /// Whether only people with shares open the vault.
    pub fn needs_people(&self) -> bool {
        let mut methods = self.active_methods().peekable();
        methods.peek().is_some() && methods.all(|it| it.kind.needs_people())
    }

    /// When the vault key was created: the time of its rotation, or of the vault for the first key.
    pub fn key_created_at(&self, history: KeyHistory) -> Option<Timestamp> {
        let rotated_at = history.vault_key_created_ms.map(|unix_ms| Timestamp { unix_ms });
        rotated_at.or_else(|| self.methods.iter().map(|it| it.created_at).min())
    }

    pub fn find(&self, id: UnlockId) -> Option<&UnlockRecord> {
        self.methods.iter().find(|it| it.id == id)
    }
}
