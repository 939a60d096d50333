//! Alterations of the database file without the keys of the vault are detected.

use rusqlite::Connection;
use scrip_core::{
    Error,
    card::TokenType,
    operations::tokens::{
        ListTokensQuery, TokenFilter, create_token::create_token, get_token::get_token,
        list_tokens::list_tokens, update_token::update_token,
    },
    policy::{Caller, TenantSettings},
    token::{NewToken, TokenPatch, TokenSource, TokenView},
    types::{Plaintext, Transform, id::TokenId},
};
use scrip_testing::{
    clock::START,
    policy::{TOKENS, access_rule, access_with_rules},
    requests::{DEBIT, VISA, card, create},
    vault_harness::{Engine, VaultHarness, containers},
};
use serde_json::json;

pub(crate) async fn create_vault_with_card(engine: Engine) -> (VaultHarness, Caller, TokenId) {
    let harness = VaultHarness::open(engine).await;
    let tenant = harness.tenant(TenantSettings::default()).await;
    let caller = harness
        .caller(&tenant, access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]))
        .await;
    let data = Plaintext::new(json!({"number": "4242424242424242", "cvc": "123"}));
    let new_card = NewToken {
        id: None,
        source: TokenSource::Data { token_type: TokenType::Card, data },
        mask: None,
        containers: Some(containers(&["/pci/high/", "/a/"])),
        metadata: Some([("who".to_owned(), "me".to_owned())].into()),
        search_indexes: None,
        fingerprint_expression: None,
        deduplicate: None,
        expires_at: Some(START.plus(std::time::Duration::from_secs(3600))),
    };
    let created = create_token(&harness.vault, &caller, new_card, None).await.unwrap();
    let id = created.token.id;
    // An update, so that every column has a value.
    update_token(&harness.vault, &caller, &id, TokenPatch::default(), None).await.unwrap();
    (harness, caller, id)
}

pub(crate) fn describe(view: &TokenView) -> String {
    let visible = &view.detail.as_ref().unwrap().visible;
    let data = visible.data.as_ref().map(Plaintext::expose);
    let cvc = visible.cvc.as_ref().map(|it| it.expose());
    format!("{view:?} {data:?} {cvc:?}")
}

/// A table, a column and its altered value. Each column is restored before the next is altered.
const ALTERATIONS: &[(&str, &str, &str)] = &[
    ("tokens", "id", "'altered'"),
    ("tokens", "id", "''"),
    ("tokens", "type", "'network_token'"),
    ("tokens", "type", "'unheard_of'"),
    ("tokens", "fingerprint", "NULL"),
    ("tokens", "fingerprint", "zeroblob(32)"),
    ("tokens", "fingerprint", "x'00'"),
    ("tokens", "expressions", "x'00'"),
    ("tokens", "expressions", "zeroblob(33)"),
    ("tokens", "containers", "'/a/,/pci/high/'"),
    ("tokens", "containers", "'/a/'"),
    ("tokens", "containers", "'/pci/high/,/a/,/a/b/'"),
    ("tokens", "containers", "'/pci/high/a/'"),
    ("tokens", "containers", "''"),
    ("tokens", "containers", "'no container'"),
    ("tokens", "created_by", "zeroblob(16)"),
    ("tokens", "created_by", "x'00'"),
    ("tokens", "created_at", "created_at + 1"),
    ("tokens", "modified_by", "zeroblob(16)"),
    ("tokens", "modified_by", "NULL"),
    ("tokens", "modified_at", "modified_at + 1"),
    ("tokens", "modified_at", "NULL"),
    ("tokens", "expires_at", "NULL"),
    ("tokens", "expires_at", "expires_at + 1"),
    ("tokens", "expires_at", "1"),
    ("tokens", "revision", "revision + 1"),
    ("tokens", "revision", "revision - 1"),
    ("tokens", "indexes", "x''"),
    ("tokens", "indexes", "zeroblob(length(indexes))"),
    ("tokens", "indexes", "CAST(indexes || zeroblob(16) AS BLOB)"),
    ("tokens", "indexes", "CAST(indexes || x'00' AS BLOB)"),
    ("tokens", "body", "x''"),
    ("tokens", "body", "substr(body, 1, length(body) - 1)"),
    ("tokens", "body", "zeroblob(length(body))"),
    ("tokens", "body", "CAST(body || x'00' AS BLOB)"),
    ("cvcs", "expires_at", "expires_at + 1"),
    ("cvcs", "sealed", "x''"),
    ("cvcs", "sealed", "substr(sealed, 1, length(sealed) - 1)"),
];

#[tokio::test]
async fn altered_token_column_is_detected() {
    let (harness, caller, id) = create_vault_with_card(Engine::Sqlite).await;
    let unaltered = describe(&get_token(&harness.vault, &caller, &id).await.unwrap());
    assert!(unaltered.contains("4242424242424242") && unaltered.contains("\"123\""), "{unaltered}");
    let attacker = Connection::open(harness.file()).unwrap();
    for (table, column, value) in ALTERATIONS {
        let save_column =
            format!("CREATE TEMP TABLE saved AS SELECT {column} AS original FROM {table}");
        attacker.execute_batch(&save_column).unwrap();
        attacker.execute(&format!("UPDATE {table} SET {column} = {value}"), []).unwrap();
        let outcome = get_token(&harness.vault, &caller, &id).await;
        let is_detected = matches!(outcome, Err(Error::Internal(_) | Error::NotFound));
        assert!(is_detected, "{column} = {value}: {outcome:?}");
        let restore_column = format!("UPDATE {table} SET {column} = (SELECT original FROM saved)");
        attacker.execute_batch(&format!("{restore_column}; DROP TABLE saved;")).unwrap();
        assert_eq!(describe(&get_token(&harness.vault, &caller, &id).await.unwrap()), unaltered);
    }
}

/// Index entries are not authenticated, but tokens are: a token is never returned for a wrong
/// entry.
#[tokio::test]
async fn forged_index_entry_is_detected() {
    let (harness, caller, _) = create_vault_with_card(Engine::Sqlite).await;
    let attacker = Connection::open(harness.file()).unwrap();
    let count_listed = async |filter| {
        let query = ListTokensQuery { container: None, filter, start: None, size: 20 };
        list_tokens(&harness.vault, &caller, query).await.map(|it| it.items.len())
    };
    assert_eq!(count_listed(TokenFilter::Type(TokenType::Card)).await.unwrap(), 1);
    let forged_entries = [
        "SELECT tenant, CAST('tbank' AS BLOB), container, created_at, token FROM token_index",
        "SELECT tenant, CAST('tbank' AS BLOB), '/a/', created_at, token FROM token_index",
        "SELECT tenant, facet, '/zoo/', created_at, token FROM token_index",
        "SELECT tenant, facet, container, created_at + 1, token FROM token_index",
    ];
    for forged_entry in forged_entries {
        attacker
            .execute_batch("BEGIN; CREATE TEMP TABLE saved AS SELECT * FROM token_index")
            .unwrap();
        attacker.execute(&format!("INSERT OR IGNORE INTO token_index {forged_entry}"), []).unwrap();
        attacker.execute_batch("COMMIT").unwrap();
        let outcome = count_listed(TokenFilter::All).await;
        assert!(matches!(outcome, Err(Error::Internal(_))), "{forged_entry}: {outcome:?}");
        attacker
            .execute_batch(
                "DELETE FROM token_index; INSERT INTO token_index SELECT * FROM saved; DROP TABLE saved",
            )
            .unwrap();
        assert_eq!(count_listed(TokenFilter::All).await.unwrap(), 1);
    }
    attacker.execute("UPDATE token_index SET token = token + 1000", []).unwrap();
    assert_eq!(count_listed(TokenFilter::All).await.unwrap(), 0);
}

/// A body, a CVC and a row belong to one token and one tenant.
#[tokio::test]
async fn swapped_cvcs_bodies_and_reassigned_rows_are_detected() {
    let (harness, caller, id) = create_vault_with_card(Engine::Sqlite).await;
    let other_card = NewToken {
        id: Some("other".to_owned()),
        source: TokenSource::Data {
            token_type: TokenType::Card,
            data: Plaintext::new(json!({"number": "4000056655665556", "cvc": "456"})),
        },
        mask: None,
        containers: None,
        metadata: None,
        search_indexes: None,
        fingerprint_expression: None,
        deduplicate: None,
        expires_at: None,
    };
    create_token(&harness.vault, &caller, other_card, None).await.unwrap();
    let tenant = harness.tenant(TenantSettings::default()).await;
    let stranger = harness
        .caller(&tenant, access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]))
        .await;
    let attacker = Connection::open(harness.file()).unwrap();

    let swap_cvcs =
        "UPDATE cvcs SET (expires_at, sealed) = (SELECT expires_at, sealed FROM cvcs AS it
        WHERE it.token <> cvcs.token)";
    attacker.execute("BEGIN", []).unwrap();
    attacker.execute(swap_cvcs, []).unwrap();
    attacker.execute("COMMIT", []).unwrap();
    let swapped_cvc = get_token(&harness.vault, &caller, &id).await;
    assert!(matches!(swapped_cvc, Err(Error::Internal(_))), "{swapped_cvc:?}");

    let swap_bodies =
        "UPDATE tokens SET body = (SELECT body FROM tokens AS it WHERE it.seq <> tokens.seq)";
    attacker.execute(swap_bodies, []).unwrap();
    let swapped_body = get_token(&harness.vault, &caller, &id).await;
    assert!(matches!(swapped_body, Err(Error::Internal(_))), "{swapped_body:?}");

    let reassign = "UPDATE tokens SET tenant = ?";
    attacker.execute(reassign, [tenant.id.0.as_bytes()]).unwrap();
    let reassigned = get_token(&harness.vault, &stranger, &id).await;
    assert!(matches!(reassigned, Err(Error::Internal(_))), "{reassigned:?}");
}

/// Creates two tokens of different cards. The test moves the duplicate key of the first token to
/// the second.
pub(crate) async fn create_vault_with_two_cards(
    engine: Engine,
) -> (VaultHarness, Caller, [TokenId; 2]) {
    let harness = VaultHarness::open(engine).await;
    let tenant = harness.tenant(TenantSettings::default()).await;
    let caller = harness
        .caller(&tenant, access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]))
        .await;
    let first = create(&harness.vault, &caller, card(VISA)).await.unwrap().token.id;
    let second = create(&harness.vault, &caller, card(DEBIT)).await.unwrap().token.id;
    (harness, caller, [first, second])
}

/// The statements that move a duplicate key from one token to another.
pub(crate) fn move_duplicate_key_statements([from, to]: &[TokenId; 2]) -> [String; 2] {
    let (from, to) = (from.as_str(), to.as_str());
    [
        format!(
            "UPDATE tokens SET duplicate_key = (SELECT it.duplicate_key FROM tokens AS it
                 WHERE it.id = '{from}') WHERE id = '{to}'"
        ),
        format!("UPDATE tokens SET duplicate_key = NULL WHERE id = '{from}'"),
    ]
}

/// Creates the first card with deduplication. The result must not be the second token.
pub(crate) async fn check_moved_duplicate_key(harness: &VaultHarness, caller: &Caller) {
    let mut same_card = card(VISA);
    same_card.deduplicate = Some(true);
    let outcome = create(&harness.vault, caller, same_card).await;
    assert!(matches!(outcome, Err(Error::Internal(_))), "{outcome:?}");
}

#[tokio::test]
async fn duplicate_key_of_another_token_is_detected_on_sqlite() {
    let (harness, caller, ids) = create_vault_with_two_cards(Engine::Sqlite).await;
    let attacker = Connection::open(harness.file()).unwrap();
    for sql in move_duplicate_key_statements(&ids) {
        assert_eq!(attacker.execute(&sql, []).unwrap(), 1, "{sql}");
    }
    check_moved_duplicate_key(&harness, &caller).await;
}
