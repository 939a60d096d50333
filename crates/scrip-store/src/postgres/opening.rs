//! From an address to a store: the schema, and who may use it.

use scrip_core::store::StoreError;

use crate::{
    claims::Claims,
    postgres::{
        PostgresSettings, PostgresStore, access::AccessLog, listen::Changes, migrate, roles,
        statement::unavailable,
    },
};

impl PostgresStore {
    /// Brings the schema to the newest version. Any number of nodes may do so at once. Another role
    /// that is named gets what it needs to serve, and no more.
    ///
    /// # Errors
    /// It cannot be reached, does not let us, or has no role of that name.
    pub async fn migrate(
        settings: PostgresSettings,
        grant_to: Option<&str>,
    ) -> Result<(), StoreError> {
        let pool = settings.connections(1).pool()?;
        let mut client = pool.connection().await?;
        migrate::migrate(&mut client).await?;
        match grant_to {
            Some(role) => roles::grant(&mut client, role).await,
            None => Ok(()),
        }
    }

    /// # Errors
    /// It cannot be reached, or its schema is not the one that we know.
    pub async fn open(settings: PostgresSettings) -> Result<Self, StoreError> {
        let changes = Changes::at(settings.place());
        let pool = settings.pool()?;
        let mut held = pool.hold().await?;
        let version = migrate::schema_version(held.client()?);
        match held.in_time(version).await?? {
            Some(migrate::NEWEST) => (),
            None => return Err(unavailable("there is no vault in this database")),
            Some(_) => return Err(unavailable("the schema of this database is another version's")),
        }
        held.release();
        Ok(Self { pool, access: AccessLog::default(), claims: Claims::default(), changes })
    }
}
