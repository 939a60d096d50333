//! Altered policy rows, with the advice how to repair them. Every command gives the same advice.

use std::collections::HashSet;

use scrip_core::{
    Vault,
    operations::tenants::recorded_deletion::list_completed_deletions,
    policy::{Directory, PolicyAlteration},
    types::id::TenantId,
};

use crate::error::explain;

/// How to repair an altered policy.
const REPAIR_ADVICE: &str =
    "To put it back run: scrip policy restore --from BACKUP --tenant TENANT_ID";

/// The altered policy rows of a vault.
#[derive(Debug, Default)]
pub struct AlteredPolicies {
    rows: Vec<AlteredRow>,
}

/// An altered row, its description, and how to repair it.
#[derive(Debug)]
pub struct AlteredRow {
    tenant: Option<TenantId>,
    pub text: String,
    pub advice: String,
}

impl AlteredPolicies {
    /// Errors: the deleted tenants cannot be read.
    pub async fn load(vault: &Vault, directory: &Directory) -> anyhow::Result<Self> {
        if directory.alterations().is_empty() {
            return Ok(Self::default());
        }
        let deleted = list_completed_deletions(vault, directory.audit_key()).await;
        let deleted = deleted.map_err(explain)?;
        let to_row = |it: &PolicyAlteration| AlteredRow {
            tenant: it.tenant,
            text: describe(it),
            advice: advice(it.tenant, &deleted),
        };
        Ok(Self { rows: directory.alterations().iter().map(to_row).collect() })
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn contains(&self, tenant: TenantId) -> bool {
        self.rows.iter().any(|it| it.tenant == Some(tenant))
    }

    pub fn rows(&self) -> &[AlteredRow] {
        &self.rows
    }

    /// Returns one line per altered row, for JSON.
    pub fn descriptions(&self) -> Vec<&str> {
        self.rows.iter().map(|it| it.text.as_str()).collect()
    }

    /// Returns the lines that every list prints below its table: tenants with an altered policy are
    /// not in the table.
    pub fn lines(&self) -> String {
        let describe =
            |it: &AlteredRow| format!("altered outside the vault and rejected: {}\n", it.text);
        let mut lines: String = self.rows.iter().map(describe).collect();
        let advice = distinct_advice(self.rows.iter());
        lines.extend(advice.into_iter().map(|it| format!("{it}\n")));
        lines
    }

    /// Returns a sentence about the altered rows of one tenant or of all tenants, and the advice.
    pub fn message(&self, tenant: Option<TenantId>) -> String {
        let rows = || self.rows.iter().filter(|it| tenant.is_none() || it.tenant == tenant);
        let texts: Vec<_> = rows().map(|it| it.text.as_str()).collect();
        format!("{}. {}", texts.join("; "), distinct_advice(rows()).join(". "))
    }
}

/// Tenants with several altered rows have the same advice for each.
fn distinct_advice<'a>(rows: impl Iterator<Item = &'a AlteredRow>) -> Vec<&'a str> {
    let mut advice: Vec<&str> = Vec::new();
    for row in rows {
        if !advice.contains(&row.advice.as_str()) {
            advice.push(&row.advice);
        }
    }
    advice
}

/// A restoration would bring a deleted tenant back, so its rows are leftovers.
fn advice(tenant: Option<TenantId>, deleted: &HashSet<TenantId>) -> String {
    match tenant.filter(|it| deleted.contains(it)) {
        Some(id) => format!(
            "The tenant was deleted on purpose, and another program added these leftovers; to \
             delete them run: scrip tenant delete {id} --yes"
        ),
        None => REPAIR_ADVICE.to_owned(),
    }
}

fn describe(alteration: &PolicyAlteration) -> String {
    match alteration.tenant {
        Some(id) => format!("tenant {id}: {}", alteration.description),
        None => alteration.description.clone(),
    }
}

/// Returns one line per altered policy row of a directory that is not open as a vault.
pub fn describe_alterations(directory: &Directory) -> Vec<String> {
    directory.alterations().iter().map(describe).collect()
}
