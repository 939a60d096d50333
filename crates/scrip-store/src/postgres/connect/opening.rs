//! From an address to a store: the schema, who may use it, and what is asked of a server only now and
//! then.

use scrip_core::{
    audit::{
        LogKind,
        verify::{ChainAnchors, Verifier},
    },
    store::StoreError,
};
use tokio_postgres::IsolationLevel;

use crate::{
    claims::InFlightClaims,
    postgres::{
        MigrationResult, PostgresSettings, PostgresStore, ServerHealth,
        audit::{read_log::PostgresReadLog, verify},
        connect::{directory_listener::DirectoryListener, health, migrate, roles},
        engine::{
            error::{store_error, unavailable},
            scope::RowScope,
        },
        tokens::write_group::TokenWriteQueue,
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
    pub async fn migrate(settings: PostgresSettings) -> Result<MigrationResult, StoreError> {
        let serving = settings.serve_role().map(str::to_owned);
        let pool = settings.with_connections(1).pool()?;
        let mut client = pool.connection().await?;
        let migrated = migrate::migrate(&mut client).await?;
        if let Some(role) = serving {
            roles::grant_serve_role(&mut client, &role).await?;
        }
        Ok(migrated)
    }

    /// The version of the schema; nothing where there was never a vault.
    ///
    /// # Errors
    /// It cannot be reached.
    pub async fn schema_version(settings: PostgresSettings) -> Result<Option<i64>, StoreError> {
        let connection = settings.with_connections(1).pool()?.acquire().await?;
        connection.with_timeout(migrate::schema_version(connection.client()?)).await?
    }

    /// # Errors
    /// It cannot be reached, or its schema is not the one that we know.
    pub async fn open(settings: PostgresSettings) -> Result<Self, StoreError> {
        let changes = DirectoryListener::new(settings.connection_target());
        let pool = settings.pool()?;
        let mut connection = pool.acquire().await?;
        let version = migrate::schema_version(connection.client()?);
        match connection.with_timeout(version).await?? {
            Some(version) => migrate::check_version(version)?,
            None => return Err(unavailable("there is no vault in this database; run: scrip init")),
        }
        transfer::check_no_unfinished_import(&connection).await?;
        connection.release();
        let (access, writes) =
            (PostgresReadLog::new(pool.clone()), TokenWriteQueue::new(pool.clone()));
        Ok(Self {
            pool,
            read_log: access,
            write_queue: writes,
            claims: InFlightClaims::default(),
            directory_listener: changes,
        })
    }

    /// What the operator should know of the server.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn health(&self) -> Result<ServerHealth, StoreError> {
        health::find_server_health(&self.without_tenant()).await
    }

    /// Hands every record of a log to the verifier that `begin` makes of its heads and checkpoints,
    /// all of one instant. `watch` hears how many there were so far, and how many there should be.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn verify_log(
        &self,
        log: LogKind,
        create_verifier: impl FnOnce(ChainAnchors) -> Verifier,
        report_progress: impl FnMut(u64, u64),
    ) -> Result<Verifier, StoreError> {
        // Of all tenants, and for as long as it takes.
        let mut client = self.pool.connection().await?;
        let it = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
        let it = it.read_only(true).start().await.map_err(store_error)?;
        it.batch_execute(&RowScope::all_tenants().set_statement()).await.map_err(store_error)?;
        verify::verify_log(&it, log, create_verifier, report_progress).await
    }
}
