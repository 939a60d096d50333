//! Opening a store from its settings: schema, roles, and operator commands that the server runs
//! rarely.

use scrip_core::{
    audit::{
        LogKind,
        verify::{ChainAnchors, Verifier},
    },
    types::StoreError,
};
use tokio_postgres::IsolationLevel;

use crate::{
    claims::InFlightClaims,
    policy_turns::PolicyTurns,
    postgres::{
        MigrationResult, PostgresSettings, PostgresStore, ServerHealth,
        connect::{directory_listener::DirectoryListener, health, migrate, roles},
        engine::{
            error::{store_error, unavailable},
            scope::RowScope,
        },
        read_log::PostgresReadLog,
        tokens::write_group::TokenWriteQueue,
        transfer,
    },
    shared::log::{VerificationStart, begin_verification, verify_row},
};

/// Records fetched per portal read. Progress is reported after each fetch.
const PORTAL_ROWS: i32 = 4096;

impl PostgresStore {
    /// Creates the schema or migrates it to the newest version. Several nodes may call this at the
    /// same time. A separate serving role gets exactly the rights that it needs.
    ///
    /// Errors: the database is unreachable or denies access, its schema is too new, or the role is
    /// invalid.
    pub async fn migrate(settings: PostgresSettings) -> Result<MigrationResult, StoreError> {
        let serve_role = settings.serve_role().map(str::to_owned);
        let pool = settings.with_connections(1).pool()?;
        let mut client = pool.acquire_without_response_timeout().await?;
        let result = migrate::migrate(&mut client).await?;
        if let Some(role) = serve_role {
            roles::grant_serve_role(&mut client, &role).await?;
        }
        Ok(result)
    }

    /// Returns the schema version; `None` if the database never had a vault.
    /// Errors: the database is unreachable.
    pub async fn schema_version(settings: PostgresSettings) -> Result<Option<i64>, StoreError> {
        let connection = settings.with_connections(1).pool()?.acquire().await?;
        connection.with_timeout(migrate::schema_version(connection.client()?)).await?
    }

    /// Opens a vault.
    /// Errors: the database is unreachable, or this program does not support its schema version.
    pub async fn open(settings: PostgresSettings) -> Result<Self, StoreError> {
        let directory_listener = DirectoryListener::new(settings.connection_target());
        let pool = settings.pool()?;
        let mut connection = pool.acquire().await?;
        let version = migrate::schema_version(connection.client()?);
        match connection.with_timeout(version).await?? {
            Some(version) => migrate::check_version(version)?,
            None => return Err(unavailable("there is no vault in this database; run: scrip init")),
        }
        transfer::check_no_unfinished_import(&connection).await?;
        connection.release();
        let (read_log, write_queue) =
            (PostgresReadLog::new(pool.clone()), TokenWriteQueue::new(pool.clone()));
        Ok(Self {
            pool,
            read_log,
            write_queue,
            claims: InFlightClaims::default(),
            policy_turns: PolicyTurns::default(),
            directory_listener,
        })
    }

    /// Reads properties of the server that an operator should know.
    /// Errors: the server does not respond.
    pub async fn health(&self) -> Result<ServerHealth, StoreError> {
        health::find_server_health(&self.without_tenant()).await
    }

    /// Passes every record of a log to the verifier that `create_verifier` creates from the heads
    /// and checkpoints, all in one snapshot while other transactions write. `report_progress`
    /// receives the number of verified records and the expected total.
    ///
    /// Verification takes long and blocks no other transaction, but VACUUM cannot remove row versions
    /// that its snapshot still sees.
    /// Errors: the database cannot be read.
    pub async fn verify_log(
        &self,
        log: LogKind,
        create_verifier: impl FnOnce(ChainAnchors) -> Verifier,
        mut report_progress: impl FnMut(u64, u64),
    ) -> Result<Verifier, StoreError> {
        // Covers all tenants and has no time limit.
        let mut client = self.pool.acquire_without_response_timeout().await?;
        let builder = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
        let transaction = builder.read_only(true).start().await.map_err(store_error)?;
        let set_scope = RowScope::all_tenants().set_statement();
        transaction.batch_execute(&set_scope).await.map_err(store_error)?;
        let statements = Self::chain_statements(log);
        let start = begin_verification(&transaction, statements, create_verifier).await?;
        let VerificationStart { mut verifier, expected_records } = start;
        let statement =
            transaction.prepare_cached(&statements.list_all_records).await.map_err(store_error)?;
        let portal = transaction.bind(&statement, &[]).await.map_err(store_error)?;
        let mut verified_records = 0_u64;
        loop {
            let rows = transaction.query_portal(&portal, PORTAL_ROWS).await.map_err(store_error)?;
            for row in &rows {
                verify_row(&mut verifier, row);
                verified_records = verified_records.saturating_add(1);
            }
            report_progress(verified_records, expected_records);
            if rows.is_empty() {
                return Ok(verifier);
            }
        }
    }
}
