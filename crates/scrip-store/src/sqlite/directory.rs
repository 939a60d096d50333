//! Tenants, applications and keys.

use rusqlite::{Connection, OptionalExtension, named_params};
use scrip_core::{
    application::{AccessPolicy, ApiKeyRecord, ApplicationRecord},
    directory::DirectoryRecords,
    id::{ApiKeyId, ApplicationId, TenantId},
    permission::ApplicationKind,
    store::StoreError,
    tenant::{Settings, TenantKind, TenantRecord},
    time::Timestamp,
};
use scrip_seal::{Sealed, WrappedTenantKeys};

use crate::sqlite::{fault, row::uuid};

const CORRUPT: StoreError = StoreError::Corrupt("a policy row is not one of ours");

pub(super) fn load_directory(connection: &Connection) -> Result<DirectoryRecords, StoreError> {
    let pepper = connection
        .query_row(
            "-- find_pepper\nSELECT wrapped FROM system_keys WHERE name = 'pepper'",
            [],
            |row| row.get(0),
        )
        .optional()
        .map_err(fault)?;
    Ok(DirectoryRecords {
        pepper: pepper.map(Sealed::from_stored),
        tenants: tenants(connection)?,
        applications: applications(connection)?,
        api_keys: api_keys(connection)?,
    })
}

fn tenants(connection: &Connection) -> Result<Vec<TenantRecord>, StoreError> {
    let sql =
        "-- list_tenants\nSELECT id, name, kind, settings, lasting_key, created_at FROM tenants";
    let mut statement = connection.prepare(sql).map_err(fault)?;
    let mut rows = statement.query([]).map_err(fault)?;
    let mut tenants = Vec::new();
    while let Some(row) = rows.next().map_err(fault)? {
        let id = TenantId(uuid(row.get(0).map_err(fault)?));
        let kind: String = row.get(2).map_err(fault)?;
        let settings: String = row.get(3).map_err(fault)?;
        let lasting = Sealed::from_stored(row.get(4).map_err(fault)?);
        tenants.push(TenantRecord {
            id,
            name: row.get(1).map_err(fault)?,
            kind: TenantKind::parse(&kind).ok_or(CORRUPT)?,
            settings: Settings::from_text(&settings).ok_or(CORRUPT)?,
            keys: WrappedTenantKeys { sealing: tenant_keys(connection, id)?, lasting },
            created_at: Timestamp { unix_ms: row.get(5).map_err(fault)? },
        });
    }
    Ok(tenants)
}

fn tenant_keys(connection: &Connection, id: TenantId) -> Result<Vec<(u32, Sealed)>, StoreError> {
    let sql = "-- list_tenant_keys\nSELECT version, wrapped FROM tenant_keys WHERE tenant = ? ORDER BY version";
    let mut statement = connection.prepare(sql).map_err(fault)?;
    let keys = statement
        .query_map([id.0.as_bytes()], |row| Ok((row.get(0)?, Sealed::from_stored(row.get(1)?))))
        .map_err(fault)?;
    keys.collect::<Result<_, _>>().map_err(fault)
}

fn applications(connection: &Connection) -> Result<Vec<ApplicationRecord>, StoreError> {
    let sql =
        "-- list_applications\nSELECT id, tenant, name, kind, access, created_at FROM applications";
    let mut statement = connection.prepare(sql).map_err(fault)?;
    let mut rows = statement.query([]).map_err(fault)?;
    let mut applications = Vec::new();
    while let Some(row) = rows.next().map_err(fault)? {
        let kind: String = row.get(3).map_err(fault)?;
        let access: String = row.get(4).map_err(fault)?;
        applications.push(ApplicationRecord {
            id: ApplicationId(uuid(row.get(0).map_err(fault)?)),
            tenant: TenantId(uuid(row.get(1).map_err(fault)?)),
            name: row.get(2).map_err(fault)?,
            kind: ApplicationKind::parse(&kind).ok_or(CORRUPT)?,
            access: AccessPolicy::from_text(&access).ok_or(CORRUPT)?,
            created_at: Timestamp { unix_ms: row.get(5).map_err(fault)? },
        });
    }
    Ok(applications)
}

fn api_keys(connection: &Connection) -> Result<Vec<ApiKeyRecord>, StoreError> {
    let sql = "-- list_api_keys\nSELECT id, tenant, application, digest, created_at FROM api_keys";
    let mut statement = connection.prepare(sql).map_err(fault)?;
    let keys = statement.query_map([], |row| {
        Ok(ApiKeyRecord {
            id: ApiKeyId(uuid(row.get(0)?)),
            tenant: TenantId(uuid(row.get(1)?)),
            application: ApplicationId(uuid(row.get(2)?)),
            digest: row.get(3)?,
            created_at: Timestamp { unix_ms: row.get(4)? },
        })
    });
    keys.map_err(fault)?.collect::<Result<_, _>>().map_err(fault)
}

pub(super) fn insert_pepper(connection: &Connection, pepper: &Sealed) -> Result<(), StoreError> {
    let sql = "-- insert_pepper\nINSERT INTO system_keys (name, wrapped) VALUES ('pepper', ?)";
    connection.execute(sql, [pepper.as_bytes()]).map(drop).map_err(fault)
}

pub(super) fn insert_tenant(
    connection: &Connection,
    tenant: &TenantRecord,
) -> Result<(), StoreError> {
    let sql = "
-- insert_tenant
INSERT INTO tenants (id, name, kind, settings, lasting_key, created_at)
VALUES (:id, :name, :kind, :settings, :lasting_key, :created_at)";
    let parameters = named_params! {
        ":id": tenant.id.0.as_bytes(),
        ":name": tenant.name,
        ":kind": tenant.kind.as_str(),
        ":settings": tenant.settings.to_text(),
        ":lasting_key": tenant.keys.lasting.as_bytes(),
        ":created_at": tenant.created_at.unix_ms,
    };
    connection.execute(sql, parameters).map_err(fault)?;
    let sql =
        "-- insert_tenant_key\nINSERT INTO tenant_keys (tenant, version, wrapped) VALUES (?, ?, ?)";
    for (version, key) in &tenant.keys.sealing {
        let parameters = (tenant.id.0.as_bytes(), version, key.as_bytes());
        connection.execute(sql, parameters).map_err(fault)?;
    }
    Ok(())
}

pub(super) fn insert_application(
    connection: &Connection,
    application: &ApplicationRecord,
    api_key: &ApiKeyRecord,
) -> Result<(), StoreError> {
    let sql = "
-- insert_application
INSERT INTO applications (id, tenant, name, kind, access, created_at)
VALUES (:id, :tenant, :name, :kind, :access, :created_at)";
    let parameters = named_params! {
        ":id": application.id.0.as_bytes(),
        ":tenant": application.tenant.0.as_bytes(),
        ":name": application.name,
        ":kind": application.kind.as_str(),
        ":access": application.access.to_text(),
        ":created_at": application.created_at.unix_ms,
    };
    connection.execute(sql, parameters).map_err(fault)?;
    let sql = "
-- insert_api_key
INSERT INTO api_keys (id, tenant, application, digest, created_at)
VALUES (:id, :tenant, :application, :digest, :created_at)";
    let parameters = named_params! {
        ":id": api_key.id.0.as_bytes(),
        ":tenant": api_key.tenant.0.as_bytes(),
        ":application": api_key.application.0.as_bytes(),
        ":digest": api_key.digest,
        ":created_at": api_key.created_at.unix_ms,
    };
    connection.execute(sql, parameters).map(drop).map_err(fault)
}
