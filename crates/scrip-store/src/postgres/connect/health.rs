//! Properties of the database server that an operator should know.

use scrip_core::types::StoreError;

use crate::postgres::engine::statement::{PostgresClient, read_column};

/// Values that the server reports. An engine that only speaks PostgreSQL's protocol may not report
/// all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerHealth {
    /// `150004` for 15.4.
    pub version: i32,
    /// Names and values of the known settings that decide how durable a commit is.
    pub durability: Vec<(&'static str, String)>,
    /// A superuser bypasses row-level security and sees the rows of all tenants.
    pub is_superuser: bool,
    pub connections_max: Option<i64>,
}

const FIND_SERVER_VERSION: &str =
    "-- version\nSELECT current_setting('server_version_num')::integer";

const FIND_SETTING: &str = "-- setting\nSELECT current_setting($1, true)";

const IS_SUPERUSER: &str = "
-- is_superuser
SELECT coalesce((SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user), false)";

pub(crate) async fn find_server_health(
    client: &impl PostgresClient,
) -> Result<ServerHealth, StoreError> {
    let rows = client.rows(FIND_SERVER_VERSION, &[]).await?;
    let version = rows.first().map(|row| read_column(row, 0)).transpose()?.unwrap_or_default();
    let mut durability = Vec::new();
    for name in ["synchronous_commit", "fsync"] {
        durability.extend(find_setting(client, name).await?.map(|it| (name, it)));
    }
    let rows = client.rows(IS_SUPERUSER, &[]).await?;
    let is_superuser = rows.first().map(|row| read_column(row, 0)).transpose()?.unwrap_or_default();
    let connections_max = find_setting(client, "max_connections").await?;
    let connections_max = connections_max.and_then(|it| it.parse().ok());
    Ok(ServerHealth { version, durability, is_superuser, connections_max })
}

async fn find_setting(
    client: &impl PostgresClient,
    name: &'static str,
) -> Result<Option<String>, StoreError> {
    let rows = client.rows(FIND_SETTING, &[&name]).await?;
    rows.first().map_or(Ok(None), |row| read_column(row, 0))
}
