//! The entries of lists.

use rusqlite::Connection;
use scrip_core::{
    id::TenantId,
    listing::{Facet, ListTokens, Position},
    store::StoreError,
};

use crate::{
    facets::{facet_bytes, facets},
    rules::tokens::{
        listing::{FiledToken, ListingReader, MISFILED, Stretch},
        rows::numbered_token,
    },
    sql::{ColumnReader, Statements, parameters, required},
    sqlite::tokens::writes::select_tokens,
};

/// Row values of three are one bound of the index, so this is one seek and a walk.
const LIST_ENTRIES: &str = "
-- list_entries
SELECT container, created_at, token FROM filed
WHERE tenant = $1 AND facet = $2 AND container >= $3
    AND (container, created_at, token) < ($4, $5, $6)
ORDER BY container DESC, created_at DESC, token DESC
LIMIT $7";

const FIND_AT: &str = concat!(
    "-- find_at\n",
    select_tokens!(),
    " WHERE tokens.seq = $1 AND tokens.tenant = $2
      AND (tokens.expires_at IS NULL OR tokens.expires_at > $3)"
);

pub(crate) const STATEMENTS: &[&str] = &[LIST_ENTRIES, FIND_AT];

/// An entry; the token that it leads to is found when its turn comes.
pub(crate) struct Entry {
    facet: Facet,
    position: Position,
}

impl ListingReader for Connection {
    type Entry = Entry;

    fn position(entry: &Entry) -> &Position {
        &entry.position
    }

    async fn stretch(
        &self,
        tenant: TenantId,
        list: &ListTokens,
        stretch: &Stretch<'_>,
    ) -> Result<Vec<Entry>, StoreError> {
        let Stretch { from, container, created_at, number, most } = *stretch;
        let mut entries = Vec::new();
        for facet in facets(list.facet) {
            let name = facet_bytes(&facet);
            let of = parameters![tenant, name, from, container, created_at, number, most];
            let entry = |row: &dyn ColumnReader| {
                let position = Position {
                    container: required(row, 0).map_err(|_| MISFILED)?,
                    created_at: required(row, 1)?,
                    number: required(row, 2)?,
                };
                Ok(Entry { facet, position })
            };
            entries.extend(self.query(LIST_ENTRIES, &of, entry).await?);
        }
        entries.sort_unstable_by(|one, other| other.position.cmp(&one.position));
        entries.truncate(most);
        Ok(entries)
    }

    async fn token(
        &self,
        tenant: TenantId,
        list: &ListTokens,
        Entry { facet, position }: Entry,
    ) -> Result<Option<FiledToken>, StoreError> {
        let at = parameters![position.number, tenant, list.now];
        let found = self.find(FIND_AT, &at, numbered_token).await?;
        Ok(found.map(|it| FiledToken { position, facet: Some(facet), token: it.token }))
    }
}
