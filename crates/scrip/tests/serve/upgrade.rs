//! Vaults, backups and exports of an earlier version.

mod earlier_vault;
mod embedded;
mod postgres;
