//! How a vault stands: by this is seen whether it changed. All that is done in a vault ends in one
//! of its logs, but for what is forgotten when its time is over: that changes a count.

use scrip_core::store::StoreError;
use scrip_seal::Checksum;

use crate::transfer::{Bounds, Page, Rows, kind::Kind, row::encode};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) sum: [u8; 32],
    pub(super) counts: Vec<u64>,
}

/// What says all of the rest: whose vault it is, and where everything has come to.
const TELLING: [Kind; 7] = [
    Kind::SystemKeys,
    Kind::DirectoryVersion,
    Kind::LastEvent,
    Kind::AuditHeads,
    Kind::AuditCheckpoints,
    Kind::AccessHeads,
    Kind::AccessCheckpoints,
];

/// At one instant.
pub(super) async fn standing(rows: &mut dyn Rows) -> Result<Standing, StoreError> {
    rows.begin_reading().await?;
    let found = find(rows).await;
    rows.end_reading().await?;
    found
}

/// While it is read.
pub(super) async fn find(rows: &mut dyn Rows) -> Result<Standing, StoreError> {
    let mut sum = Checksum::new();
    sum.add(rows.engine().as_bytes());
    sum.add(&rows.schema().to_be_bytes());
    let counts = counts(rows).await?;
    for count in &counts {
        sum.add(&count.to_be_bytes());
    }
    for kind in TELLING {
        let mut after = None;
        while let Some(page) = next_page(rows, kind, after.as_deref(), Bounds::default()).await? {
            for row in &page.rows {
                let mut bytes = Vec::new();
                encode(kind.columns(), row, &mut bytes).ok_or(ANOTHER_KIND)?;
                sum.add(&bytes);
            }
            after = Some(page.position);
        }
    }
    Ok(Standing { sum: sum.finish(), counts })
}

pub(super) async fn counts(rows: &mut dyn Rows) -> Result<Vec<u64>, StoreError> {
    let mut counts = Vec::new();
    for kind in Kind::ALL {
        counts.push(rows.count(kind).await?);
    }
    Ok(counts)
}

/// Nothing at the end.
pub(super) async fn next_page(
    rows: &mut dyn Rows,
    kind: Kind,
    after: Option<&[u8]>,
    bounds: Bounds,
) -> Result<Option<Page>, StoreError> {
    let page = rows.page(kind, after, bounds).await?;
    Ok((!page.rows.is_empty()).then_some(page))
}

pub(super) const ANOTHER_KIND: StoreError =
    StoreError::Corrupt("a row does not have the columns we wrote");
