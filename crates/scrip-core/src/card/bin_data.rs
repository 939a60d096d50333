//! BIN data: details of a card by the first digits of its number.
//!
//! There are three sources: the built-in ranges of the schemes; a file that the operator imported,
//! which also has issuers; and, for test tenants only, the sandbox cards. Lookups use only the
//! digits that masks show, so the details reveal nothing more about the number.

mod bin_file;
mod brand;
mod built_in;
mod country;
mod details;
mod sandbox;
mod table;

pub(crate) use self::sandbox::is_sandbox_number;
pub use self::{
    bin_file::BinFileError,
    brand::{AuthenticationRequirement, Brand, Funding},
    country::Country,
    details::{AdditionalBrand, AdditionalBrands, BinDetails, BinDigits},
    table::{BinPrefix, BinRow, BinTable, PrefixRange},
};

use std::sync::Arc;

use arc_swap::ArcSwapOption;

use crate::types::TenantKind;

/// BIN data for requests. An import can replace it at any time.
#[derive(Debug, Default)]
pub struct BinData {
    imported: ArcSwapOption<BinTable>,
}

/// Details and their source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinLookup {
    pub details: BinDetails,
    pub source: BinSource,
}

/// The source of BIN details.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinSource {
    /// The ranges of the schemes; also when nothing is known.
    BuiltIn,
    Imported,
    Sandbox,
}

impl BinData {
    /// Replaces the imported table; `None` leaves only the built-in ranges.
    pub fn replace_imported(&self, table: Option<BinTable>) {
        self.imported.store(table.map(Arc::new));
    }

    pub fn imported(&self) -> Option<Arc<BinTable>> {
        self.imported.load_full()
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.imported.load().is_some()
    }

    /// The details that all cards with this prefix have in common, for a tenant of this kind. `None`
    /// if none are known.
    pub fn find_by_prefix(&self, kind: TenantKind, prefix: &BinPrefix) -> Option<BinDetails> {
        if kind == TenantKind::Test
            && let Some(details) = sandbox::find_by_prefix(prefix.digits())
        {
            return Some(details);
        }
        Some(self.find_in_range(prefix.range()).details).filter(|it| !it.is_empty())
    }

    /// The details of the card with this number, for a tenant of this kind.
    pub fn find(&self, kind: TenantKind, number: &str) -> BinLookup {
        if kind == TenantKind::Test
            && let Some(details) = sandbox::find(number)
        {
            return BinLookup { details, source: BinSource::Sandbox };
        }
        let Some(range) = PrefixRange::from_number(number) else {
            return BinLookup { details: BinDetails::default(), source: BinSource::BuiltIn };
        };
        self.find_in_range(range)
    }

    fn find_in_range(&self, range: PrefixRange) -> BinLookup {
        let built_in = built_in::table().find(range).unwrap_or_default();
        match self.imported.load().as_ref().and_then(|it| it.find(range)) {
            Some(details) => {
                BinLookup { details: details.fill_from(built_in), source: BinSource::Imported }
            }
            None => BinLookup { details: built_in, source: BinSource::BuiltIn },
        }
    }
}

#[cfg(test)]
mod field_brands;

#[cfg(test)]
mod tests;
