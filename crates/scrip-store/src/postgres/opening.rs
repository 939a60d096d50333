//! From an address to a store: the schema, and what is asked of a server only now and then.

use scrip_core::{
    audit::{
        chain::Log,
        verify::{Ends, Verifier},
    },
    store::StoreError,
};

use crate::{
    claims::Claims,
    postgres::{
        Health, Migrated, PostgresSettings, PostgresStore,
        access::AccessLog,
        health, migrate,
        settings::connection,
        statement::{at_one_instant, unavailable},
        trail,
    },
};

impl PostgresStore {
    /// Brings the schema to the newest version, or makes it. Any number of nodes may do so at once.
    ///
    /// # Errors
    /// It cannot be reached, does not let us, or has a schema that is newer than we are.
    pub async fn migrate(settings: PostgresSettings) -> Result<Migrated, StoreError> {
        let pool = settings.connections(1).pool()?;
        let mut client = connection(&pool).await?;
        migrate::migrate(&mut client).await
    }

    /// The version of the schema; nothing where there was never a vault.
    ///
    /// # Errors
    /// It cannot be reached.
    pub async fn schema_version(settings: PostgresSettings) -> Result<Option<i64>, StoreError> {
        let pool = settings.connections(1).pool()?;
        migrate::schema_version(&connection(&pool).await?).await
    }

    /// # Errors
    /// It cannot be reached, or its schema is not the one that we know.
    pub async fn open(settings: PostgresSettings) -> Result<Self, StoreError> {
        let pool = settings.pool()?;
        let client = connection(&pool).await?;
        match migrate::schema_version(&client).await? {
            Some(version) => migrate::check(version)?,
            None => return Err(unavailable("there is no vault in this database; run: scrip init")),
        }
        drop(client);
        Ok(Self { pool, access: AccessLog::default(), claims: Claims::default() })
    }

    /// What the operator should know of the server.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn health(&self) -> Result<Health, StoreError> {
        health::health(&self.client().await?).await
    }

    /// Hands every record of a log to the verifier that `begin` makes of its heads and checkpoints,
    /// all of one instant. `watch` hears how many there were so far, and how many there should be.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn walk_log(
        &self,
        log: Log,
        begin: impl FnOnce(Ends) -> Verifier,
        watch: impl FnMut(u64, u64),
    ) -> Result<Verifier, StoreError> {
        let mut client = self.client().await?;
        trail::walk_log(&at_one_instant(&mut client).await?, log, begin, watch).await
    }
}
