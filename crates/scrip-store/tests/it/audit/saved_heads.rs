//! Saved heads: the format of their file, and the changes of a chain since they were saved.

use scrip_core::{
    audit::{HeadChange, LogKind, SavedHead},
    log_tasks::SavedHeads,
    types::id::TenantId,
};
use scrip_seal::Mac;
use scrip_testing::{
    clock::START,
    vault_harness::{Engine, VaultHarness},
};
use uuid::Uuid;

#[tokio::test]
async fn saved_heads_file_is_signed_and_head_changes_are_classified() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let key = harness.vault.audit_trail.key().unwrap();
    let saved_head = |log, sequence| {
        let tenant = TenantId(Uuid::from_bytes([7; 16]));
        SavedHead { log, tenant, sequence, link: Mac([9; 32]) }
    };
    let heads = vec![saved_head(LogKind::Audit, 7), saved_head(LogKind::Read, 1)];
    let saved_heads = SavedHeads { saved_at: START, heads };
    let text = saved_heads.to_text(key);
    assert_eq!(SavedHeads::parse(key, &text), Some(saved_heads));
    for index in 0..text.len() {
        let mut altered = text.clone().into_bytes();
        altered[index] ^= 1;
        let altered = String::from_utf8(altered).unwrap();
        assert_eq!(SavedHeads::parse(key, &altered), None, "byte {index}");
        assert_eq!(SavedHeads::parse(key, &text[..index]), None, "truncated at {index}");
    }
    let saved = saved_head(LogKind::Audit, 7);
    let replaced = SavedHead { link: Mac([8; 32]), ..saved };
    for (current, expected) in [
        (Some(saved), HeadChange::Unchanged),
        (Some(saved_head(LogKind::Audit, 8)), HeadChange::Advanced),
        (Some(saved_head(LogKind::Audit, 6)), HeadChange::RolledBack),
        (Some(replaced), HeadChange::RolledBack),
        (None, HeadChange::RolledBack),
    ] {
        assert_eq!(saved.change_to(current.as_ref()), expected, "{current:?}");
    }
}
