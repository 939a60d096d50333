//! What is known of a card by the first digits of its number.
//!
//! Three sources: the scheme's own ranges, which are built in; a file that the operator imported,
//! which knows issuers too; and, for test tenants only, the sandbox cards. Only the digits that a
//! masked reader sees anyway take part, so nothing that is told here tells more of the number.

mod bin_file;
mod brand;
mod built_in;
mod country;
mod details;
mod sandbox;
mod table;

use std::sync::Arc;

use arc_swap::ArcSwapOption;

use crate::policy::TenantKind;

pub use self::{
    bin_file::BinFileError,
    brand::{AuthenticationRequirement, Brand, Funding},
    country::Country,
    details::{AdditionalBrand, AdditionalBrands, BinDetails, BinDigits},
    sandbox::is_sandbox_number,
    table::{BinRow, BinTable, PrefixRange},
};

/// BIN data as requests read it, while an import may replace it.
#[derive(Debug, Default)]
pub struct BinData {
    imported: ArcSwapOption<BinTable>,
}

/// Facts, and who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinLookup {
    pub details: BinDetails,
    pub source: BinSource,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinSource {
    /// The ranges of the schemes; also when nothing is known.
    BuiltIn,
    Imported,
    Sandbox,
}

impl BinData {
    /// Takes the place of what was imported before; nothing leaves the built-in ranges.
    pub fn replace_imported(&self, table: Option<BinTable>) {
        self.imported.store(table.map(Arc::new));
    }

    #[must_use]
    pub fn imported(&self) -> Option<Arc<BinTable>> {
        self.imported.load_full()
    }

    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.imported.load().is_some()
    }

    /// What is known of the card with this number, for a tenant of this kind.
    #[must_use]
    pub fn find(&self, kind: TenantKind, number: &str) -> BinLookup {
        if kind == TenantKind::Test
            && let Some(facts) = sandbox::find(number)
        {
            return BinLookup { details: facts, source: BinSource::Sandbox };
        }
        let Some(block) = PrefixRange::from_number(number) else {
            return BinLookup { details: BinDetails::default(), source: BinSource::BuiltIn };
        };
        let built_in = built_in::table().find(block).unwrap_or_default();
        match self.imported.load().as_ref().and_then(|it| it.find(block)) {
            Some(facts) => {
                BinLookup { details: facts.fill_from(built_in), source: BinSource::Imported }
            }
            None => BinLookup { details: built_in, source: BinSource::BuiltIn },
        }
    }
}

#[cfg(test)]
mod tests;
