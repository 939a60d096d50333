//! From an address to a store: the schema, who may use it, and what is asked of a server only now and
//! then.

use scrip_core::{
    audit::{
        Log,
        verify::{Ends, Verifier},
    },
    store::StoreError,
};
use tokio_postgres::IsolationLevel;

use crate::{
    claims::Claims,
    postgres::{
        Health, Migrated, PostgresSettings, PostgresStore,
        audit::{access_log::AccessLog, trail},
        connect::{health, listen::Changes, migrate, roles},
        engine::{
            fault::{fault, unavailable},
            scope::Scope,
        },
        tokens::group::Writes,
        transfer,
    },
};

impl PostgresStore {
    /// Brings the schema to the newest version, or makes it. Any number of nodes may do so at once.
    /// Another role that serves gets what it needs for that, and no more.
    ///
    /// # Errors
    /// It cannot be reached, does not let us, has a schema that is newer than we are, or no role of
    /// that name.
    pub async fn migrate(settings: PostgresSettings) -> Result<Migrated, StoreError> {
        let serving = settings.serving().map(str::to_owned);
        let pool = settings.connections(1).pool()?;
        let mut client = pool.connection().await?;
        let migrated = migrate::migrate(&mut client).await?;
        if let Some(role) = serving {
            roles::grant(&mut client, &role).await?;
        }
        Ok(migrated)
    }

    /// The version of the schema; nothing where there was never a vault.
    ///
    /// # Errors
    /// It cannot be reached.
    pub async fn schema_version(settings: PostgresSettings) -> Result<Option<i64>, StoreError> {
        let held = settings.connections(1).pool()?.hold().await?;
        held.in_time(migrate::schema_version(held.client()?)).await?
    }

    /// # Errors
    /// It cannot be reached, or its schema is not the one that we know.
    pub async fn open(settings: PostgresSettings) -> Result<Self, StoreError> {
        let changes = Changes::at(settings.place());
        let pool = settings.pool()?;
        let mut held = pool.hold().await?;
        let version = migrate::schema_version(held.client()?);
        match held.in_time(version).await?? {
            Some(version) => migrate::check(version)?,
            None => return Err(unavailable("there is no vault in this database; run: scrip init")),
        }
        transfer::check_finished(&held).await?;
        held.release();
        let (access, writes) = (AccessLog::new(pool.clone()), Writes::new(pool.clone()));
        Ok(Self { pool, access, writes, claims: Claims::default(), changes })
    }

    /// What the operator should know of the server.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn health(&self) -> Result<Health, StoreError> {
        health::health(&self.of_no_tenant()).await
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
        // Of all tenants, and for as long as it takes.
        let mut client = self.pool.connection().await?;
        let it = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
        let it = it.read_only(true).start().await.map_err(fault)?;
        it.batch_execute(&Scope::every_tenant().set()).await.map_err(fault)?;
        trail::walk_log(&it, log, begin, watch).await
    }
}
