//! The heads that are kept apart: what their file says, and what became of a chain since.

use scrip_core::{
    audit::{KeptHead, KeptHeads, Log, head_file::Went},
    id::TenantId,
};
use scrip_seal::Mac;
use scrip_testing::{
    clock::START,
    vault_harness::{Engine, VaultHarness},
};
use uuid::Uuid;

#[tokio::test]
async fn what_is_kept_apart_is_signed() {
    let world = VaultHarness::open(Engine::Sqlite).await;
    let key = world.vault.audit.key().unwrap();
    let head = |log, n| {
        let tenant = TenantId(Uuid::from_bytes([7; 16]));
        KeptHead { log, tenant, n, link: Mac([9; 32]) }
    };
    let heads = vec![head(Log::Audit, 7), head(Log::Access, 1)];
    let written = KeptHeads { at: START, heads };
    let text = written.to_text(key);
    assert_eq!(KeptHeads::parse(key, &text), Some(written));
    for at in 0..text.len() {
        let mut altered = text.clone().into_bytes();
        altered[at] ^= 1;
        let altered = String::from_utf8(altered).unwrap();
        assert_eq!(KeptHeads::parse(key, &altered), None, "byte {at}");
        assert_eq!(KeptHeads::parse(key, &text[..at]), None, "cut at {at}");
    }
    let then = head(Log::Audit, 7);
    let replaced = KeptHead { link: Mac([8; 32]), ..then };
    for (now, expected) in [
        (Some(then), Went::Nowhere),
        (Some(head(Log::Audit, 8)), Went::On),
        (Some(head(Log::Audit, 6)), Went::Back),
        (Some(replaced), Went::Back),
        (None, Went::Back),
    ] {
        assert_eq!(then.went(now.as_ref()), expected, "{now:?}");
    }
}
