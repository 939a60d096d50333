//! Tenants, applications and keys come back as they were put.

use scrip_core::{
    application::{ApiKeyRecord, ApplicationRecord},
    id::{ApiKeyId, ApplicationId, TenantId},
    permission::{ApplicationKind, Permission, Transform},
    tenant::{DeduplicationBehavior, Settings, TenantKind, TenantRecord},
};
use scrip_seal::{Sealed, WrappedTenantKeys};
use uuid::Uuid;

use crate::{
    desk::Desk,
    world::{START, TOKENS, plain, ruled},
};

on_both_engines! {
    Desk;
    the_directory_comes_back_whole
    there_is_one_pepper
}

fn id(byte: u8) -> Uuid {
    Uuid::from_bytes([byte; 16])
}

fn sealed(byte: u8) -> Sealed {
    Sealed::from_stored(vec![byte; 40])
}

async fn the_directory_comes_back_whole(desk: Desk) {
    let before = desk.store().load_directory().await.unwrap();
    let settings = Settings {
        fingerprint_tokens: false,
        deduplicate_tokens: true,
        token_deduplication_behavior: DeduplicationBehavior::UpdateExisting,
        cvc_retention_seconds: 90,
    };
    let keys =
        WrappedTenantKeys { sealing: vec![(1, sealed(1)), (2, sealed(2))], lasting: sealed(3) };
    let tenant = TenantRecord {
        id: TenantId(id(1)),
        name: "Ünlü & Söhne".to_owned(),
        kind: TenantKind::Production,
        settings,
        keys,
        created_at: START,
    };
    let rights = [
        plain(TOKENS),
        ruled(&[
            ("/pci/", Transform::Reveal, &[Permission::TokenRead]),
            ("/", Transform::Redact, TOKENS),
        ]),
    ];
    desk.store().insert_tenant(tenant.clone()).await.unwrap();
    let mut put = Vec::new();
    for (kind, access) in
        [ApplicationKind::Public, ApplicationKind::Private].into_iter().zip(rights)
    {
        let number = if kind == ApplicationKind::Public { 10 } else { 20 };
        let application = ApplicationRecord {
            id: ApplicationId(id(number)),
            tenant: tenant.id,
            name: "app".to_owned(),
            kind,
            access,
            created_at: START,
        };
        let api_key = ApiKeyRecord {
            id: ApiKeyId(id(number + 1)),
            tenant: tenant.id,
            application: application.id,
            digest: [number; 32],
            created_at: START,
        };
        desk.store().insert_application(application.clone(), api_key.clone()).await.unwrap();
        put.push((application, api_key));
    }

    let after = desk.store().load_directory().await.unwrap();
    assert_eq!(after.pepper, before.pepper);
    assert_eq!(after.tenants.len(), before.tenants.len() + 1);
    assert!(after.tenants.contains(&tenant));
    for (application, api_key) in put {
        assert!(after.applications.contains(&application));
        assert!(after.api_keys.contains(&api_key));
    }
}

async fn there_is_one_pepper(desk: Desk) {
    let before = desk.store().load_directory().await.unwrap().pepper;
    assert!(desk.store().insert_pepper(sealed(9)).await.is_err());
    assert_eq!(desk.store().load_directory().await.unwrap().pepper, before);
}
