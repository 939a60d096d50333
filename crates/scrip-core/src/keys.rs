//! Rotation of keys: of a tenant's sealing key, of the vault key, and after a compromise. Each
//! replaces a key in all rows that it seals.

pub mod compromise;
pub mod key_rotation;
pub mod sealed_row;
pub mod vault_key_rotation;

pub use self::{
    compromise::{IssuedKey, KeyOwner, KeyRenewal},
    sealed_row::{ResealedRow, RowKey, SealedDelivery, SealedRow, SealedRows},
    vault_key_rotation::{MethodRemoval, UnlockRemoval, VaultKeyRotation, WrappedKeys},
};
pub use crate::keys::sealed_row::RotatedTable;
