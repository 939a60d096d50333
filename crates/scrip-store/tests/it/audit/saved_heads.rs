//! The heads that are kept apart: what their file says, and what became of a chain since.

use scrip_core::{
    audit::{LogKind, SavedHead, SavedHeads, head_file::HeadChange},
    id::TenantId,
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
    let head = |log, n| {
        let tenant = TenantId(Uuid::from_bytes([7; 16]));
        SavedHead { log, tenant, sequence: n, link: Mac([9; 32]) }
    };
    let heads = vec![head(LogKind::Audit, 7), head(LogKind::Read, 1)];
    let written = SavedHeads { saved_at: START, heads };
    let text = written.to_text(key);
    assert_eq!(SavedHeads::parse(key, &text), Some(written));
    for at in 0..text.len() {
        let mut altered = text.clone().into_bytes();
        altered[at] ^= 1;
        let altered = String::from_utf8(altered).unwrap();
        assert_eq!(SavedHeads::parse(key, &altered), None, "byte {at}");
        assert_eq!(SavedHeads::parse(key, &text[..at]), None, "cut at {at}");
    }
    let then = head(LogKind::Audit, 7);
    let replaced = SavedHead { link: Mac([8; 32]), ..then };
    for (now, expected) in [
        (Some(then), HeadChange::Unchanged),
        (Some(head(LogKind::Audit, 8)), HeadChange::Advanced),
        (Some(head(LogKind::Audit, 6)), HeadChange::RolledBack),
        (Some(replaced), HeadChange::RolledBack),
        (None, HeadChange::RolledBack),
    ] {
        assert_eq!(then.change_to(now.as_ref()), expected, "{now:?}");
    }
}
