//! A vault with rows of every kind, and all its responses.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use scrip_core::{
    audit::{LogKind, SignedWatermark},
    card::TokenType,
    equality::{GuessBucket, GuessRecord},
    idempotency::{RenderedResponse, ResponseRecorder},
    operations::{
        access_sessions::{
            authorize_access_session::{AccessSessionAuthorization, authorize_access_session},
            create_access_session::create_access_session,
            resume_access_session::resume_access_session,
        },
        claim_idempotency_key::{ClaimDecision, claim_idempotency_key},
        client_keys::create_client_key::create_client_key,
        logs::prune_logs::prune_logs,
        tenants::delete_tenant::delete_tenant,
        token_intents::{
            create_token_intent::create_token_intent, get_token_intent::get_token_intent,
        },
        tokens::create_token::create_token,
        webhooks::create_webhook::create_webhook,
    },
    policy::{Caller, CallerRequirement, PolicyPermit, Tenant, TenantSettings, entity::RowValue},
    read_log::ReadLogEntry,
    store::Store,
    token::{NewTokenIntent, TokenRecord},
    types::{
        ApplicationKind, Operation, Permission, Plaintext, Transform,
        id::{TokenId, TokenIntentId},
        time::{ClockWatermark, Month},
    },
};
use scrip_seal::{Fingerprint, IndexDigest};
use scrip_store::transfer::{
    CheckedExport, ExportOptions, ExportResult, ImportResult, PageBounds, RowKind, TransferEngine,
    TransferError, TransferRow, export, import,
};
use scrip_testing::{
    clock::START,
    policy::{access_rule, access_with_rules},
    requests::{CREATE_REQUEST, DEBIT, VISA, card, card_with_cvc, create, get, visible_data},
    store_harness::{DAY, StoreHarness, token_record},
    vault::{create_proxy_with_host, proxy_draft, webhook_draft},
    vault_harness::{Engine, VaultHarness, containers, test_origin},
};
use serde_json::json;
use tempfile::TempDir;

use crate::{listing::complete_lists::describe_all_lists, policy::unlocks::adopt_vault};

/// A vault and its expected contents.
pub(crate) struct TransferHarness {
    pub(crate) vault_harness: VaultHarness,
    pub(crate) contents: VaultContents,
}

#[derive(Clone)]
pub(crate) struct VaultContents {
    keys: [String; 2],
    session_key: String,
    pub(crate) cards: [TokenId; 2],
    intent: TokenIntentId,
    pub(crate) tenants: Vec<Arc<Tenant>>,
}

const ALL_PERMISSIONS: &[Permission] = &[
    Permission::TokenCreate,
    Permission::TokenRead,
    Permission::TokenUpdate,
    Permission::TokenDelete,
    Permission::TokenIntentCreate,
    Permission::TokenIntentRead,
];

pub(crate) const IDEMPOTENCY_KEY: &[u8] = b"order-7";
pub(crate) const CVC: &str = "918";

/// The time when everything has been created.
fn creation_end() -> scrip_core::Timestamp {
    START.plus(DAY * 40)
}

fn sample_token(number: u8) -> TokenRecord {
    let token_types = [TokenType::Card, TokenType::Token, TokenType::Bank];
    let container_lists: [&[&str]; 4] = [&["/a/"], &["/b/"], &["/c/"], &["/a/", "/b/"]];
    TokenRecord {
        token_type: token_types[usize::from(number % 3)],
        fingerprint: (!number.is_multiple_of(4)).then_some(Fingerprint([number % 3; 32])),
        containers: containers(container_lists[usize::from(number % 4)]),
        indexes: (number % 5 > 1)
            .then_some(IndexDigest([8 + number % 3; 16]))
            .into_iter()
            .collect(),
        // Several tokens have the same millisecond.
        created_at: START.plus(Duration::from_millis(u64::from(number / 6))),
        expires_at: number.is_multiple_of(7).then_some(creation_end().plus(DAY)),
        ..token_record(&format!("sample-{number}"))
    }
}

async fn insert_guess(harness: &StoreHarness) {
    let guess = GuessRecord {
        bucket: GuessBucket([1; 17]),
        number_digest: [2; 16],
        counted_at: creation_end(),
        expires_at: creation_end().plus(DAY),
    };
    let tenant = harness.caller.tenant().id;
    harness.store().insert_guesses(tenant, vec![guess]).await.unwrap();
}

impl TransferHarness {
    /// Exports the vault in small pages.
    pub(crate) async fn export(&mut self, file: &Path) -> Result<ExportResult, TransferError> {
        run_export(&mut *self.vault_harness.transfer_engine().await, file, SMALL_PAGES).await
    }

    pub(crate) async fn open(engine: Engine) -> Self {
        let harness = VaultHarness::open(engine).await;
        let with_deduplication =
            TenantSettings { deduplicate_tokens: true, ..TenantSettings::default() };
        let mut tenants = Vec::new();
        for settings in [with_deduplication, TenantSettings::default(), TenantSettings::default()] {
            tenants.push(harness.tenant(settings).await);
        }
        let access = || access_with_rules([access_rule("/", Transform::Reveal, ALL_PERMISSIONS)]);
        let private = ApplicationKind::Private;
        let keys = [
            harness.create_api_key(&tenants[0], private, access()).await,
            harness.create_api_key(&tenants[1], private, access()).await,
        ];
        let [caller, other_caller] =
            [harness.authenticate(&keys[0]).await, harness.authenticate(&keys[1]).await];
        // Pruning later deletes these old records, and only a checkpoint remains.
        let old_id =
            create(&harness.vault, &caller, card("4000002500003155")).await.unwrap().token.id;
        get(&harness.vault, &caller, &old_id).await;
        harness.clock.set(creation_end());
        let cards = create_cards(&harness, &caller).await;
        get(&harness.vault, &caller, &old_id).await;
        let data = Plaintext::new(json!({"number": DEBIT, "cvc": CVC}));
        let new_intent = NewTokenIntent {
            token_type: TokenType::Card,
            data: data.into(),
            containers: None,
            authentication: None,
        };
        let intent =
            create_token_intent(&harness.vault, &caller, new_intent, None).await.unwrap().id;
        create_moved_proxy(&harness, &tenants[0], &caller).await;
        create_moved_webhook(&harness, &tenants[0]).await;
        create_moved_client_key(&harness, &tenants[0]).await;
        let session_key = create_authorized_session(&harness, &tenants[0], &caller).await;
        delete_tenant_with_token(&harness, &tenants[2]).await;
        prune(&harness).await;
        let contents = VaultContents { keys, session_key, cards, intent, tenants };
        let mut store_harness =
            StoreHarness { caller, stranger: other_caller, vault_harness: harness };
        insert_guess(&store_harness).await;
        adopt_vault(&store_harness.vault_harness).await;
        for number in 0..40 {
            store_harness.insert(sample_token(number)).await;
            store_harness = store_harness.with_callers_swapped();
        }
        store_harness
            .insert_threeds_session(
                store_harness
                    .threeds_session_write(store_harness.threeds_session_record(1), &[1, 2, 3]),
            )
            .await
            .unwrap();
        let entries = vec![ReadLogEntry::new("sample-0", "revealed")];
        store_harness
            .vault_harness
            .vault
            .record_reads(&store_harness.caller, Operation::GetToken, entries)
            .await
            .unwrap();
        let time = ClockWatermark { now: creation_end(), earliest: START };
        let key = store_harness.vault_harness.vault.audit_trail.key().unwrap();
        store_harness.store().save_watermark(SignedWatermark::new(key, time)).await.unwrap();
        Self { vault_harness: store_harness.vault_harness, contents }
    }

    /// Another vault with the same callers.
    pub(crate) async fn with_contents(mut harness: VaultHarness, contents: &VaultContents) -> Self {
        harness.clock.set(creation_end());
        harness.reopen().await;
        Self { vault_harness: harness, contents: contents.clone() }
    }

    pub(crate) async fn caller(&self, index: usize) -> Caller {
        self.vault_harness.authenticate(&self.contents.keys[index]).await
    }

    /// Describes all possible responses, without the values that differ between engines.
    pub(crate) async fn describe_responses(self) -> (Self, String) {
        let [caller, stranger] = [self.caller(0).await, self.caller(1).await];
        let Self { vault_harness: harness, contents } = self;
        let mut harness = StoreHarness { caller, stranger, vault_harness: harness };
        let mut output = String::new();
        for _ in 0..2 {
            output += &describe_all_lists(&harness).await;
            for number in 0..40 {
                output += &format!("{:?}\n", harness.find(&format!("sample-{number}")).await);
            }
            let tenant = contents.tenants.iter().find(|it| it.id == harness.caller.tenant().id);
            let permit = PolicyPermit::for_operator(Arc::clone(tenant.unwrap()));
            for month in [START, creation_end()].map(Month::from_timestamp) {
                let usage = harness.store().find_usage(&permit, month).await.unwrap();
                output += &format!("{usage:?}\n");
            }
            harness = harness.with_callers_swapped();
        }
        output += &describe_policy_and_logs(harness.store()).await;
        output += &format!("{:?}\n", harness.list_deliveries().await);
        let id = harness.threeds_session_record(1).id;
        let session =
            harness.store().find_notified_threeds_session(id, harness.now()).await.unwrap();
        output += &format!("{session:?}\n");
        let StoreHarness { vault_harness: harness, .. } = harness;
        (Self { vault_harness: harness, contents }, output)
    }

    /// Checks operations that write records, and data that needs the keys.
    pub(crate) async fn check_usable(&self) {
        let vault = &self.vault_harness.vault;
        let caller = self.caller(0).await;
        for (id, number) in self.contents.cards.iter().zip([VISA, DEBIT]) {
            let data = visible_data(&get(vault, &caller, id).await).unwrap();
            assert_eq!(data["number"], number);
            // The same card gives the same token.
            let repeated = create(vault, &caller, card(number)).await.unwrap();
            assert_eq!((repeated.token.id, repeated.deduplicated.is_some()), (id.clone(), true));
        }
        let replay = claim_idempotency_key(
            vault,
            &caller,
            Operation::CreateToken,
            IDEMPOTENCY_KEY,
            CREATE_REQUEST,
        )
        .await;
        assert!(matches!(replay, Ok(ClaimDecision::Replay(it)) if it.tokens.len() == 1));
        let intent = get_token_intent(vault, &caller, self.contents.intent).await.unwrap();
        assert_eq!(intent.id, self.contents.intent);
        let directory = self.vault_harness.directory().await;
        assert_eq!(directory.alterations(), &[]);
        let resumed = resume_access_session(vault, &directory, &self.contents.session_key).await;
        let resumed = Caller::new(Arc::new(resumed.unwrap().unwrap()), test_origin());
        assert!(
            resumed.check_requirement(CallerRequirement::Permission(Permission::TokenRead)).is_ok()
        );
        // The rows of the deleted tenant are purged in both vaults.
        vault.audit_trail.set_key(directory.audit_key());
        let mut purged_count = 0;
        while let count @ 1.. =
            scrip_core::operations::tenants::purge_tenants::purge_tenants(vault, &[]).await.unwrap()
        {
            purged_count += count;
        }
        assert!(purged_count > 0);
    }
}

async fn create_cards(harness: &VaultHarness, caller: &Caller) -> [TokenId; 2] {
    let ClaimDecision::Proceed(claim) = claim_idempotency_key(
        &harness.vault,
        caller,
        Operation::CreateToken,
        IDEMPOTENCY_KEY,
        CREATE_REQUEST,
    )
    .await
    .unwrap() else {
        panic!("no response is stored yet")
    };
    let recorder = ResponseRecorder::new(claim, |written: &scrip_core::token::WrittenToken| {
        RenderedResponse::for_token(201, written.token.id.as_str().to_owned())
    });
    let token = card_with_cvc(VISA, CVC);
    let first = create_token(&harness.vault, caller, token, Some(recorder)).await.unwrap().token.id;
    let second = create(&harness.vault, caller, card(DEBIT)).await.unwrap().token.id;
    [first, second]
}

async fn create_authorized_session(
    harness: &VaultHarness,
    tenant: &Arc<Tenant>,
    private: &Caller,
) -> String {
    let public_access =
        access_with_rules([access_rule("/", Transform::Mask, &[Permission::TokenCreate])]);
    let public = harness.caller_of_kind(tenant, ApplicationKind::Public, public_access).await;
    let directory = harness.directory().await;
    let permit = public.permit_policy(CallerRequirement::Kind(ApplicationKind::Public)).unwrap();
    let session = create_access_session(&harness.vault, permit, directory.pepper()).await.unwrap();
    let access = access_with_rules([access_rule("/a/", Transform::Mask, &[Permission::TokenRead])]);
    let authorization =
        AccessSessionAuthorization { nonce: session.nonce, access, expires_at: None };
    let permit = private.permit_policy(CallerRequirement::Kind(ApplicationKind::Private)).unwrap();
    let authorize =
        authorize_access_session(&harness.vault, permit, directory.pepper(), authorization, None);
    authorize.await.unwrap();
    session.key.expose().to_owned()
}

/// Creates a proxy with a host and with the rights of the caller's application.
async fn create_moved_proxy(harness: &VaultHarness, tenant: &Arc<Tenant>, caller: &Caller) {
    let operator = PolicyPermit::for_operator(Arc::clone(tenant));
    let draft = proxy_draft("moved", Some(caller.application()));
    let directory = harness.directory().await;
    let (creator, pepper) = (operator.clone(), directory.pepper());
    create_proxy_with_host(&harness.vault, pepper, creator, operator, draft).await;
}

async fn create_moved_client_key(harness: &VaultHarness, tenant: &Arc<Tenant>) {
    let operator = PolicyPermit::for_operator(Arc::clone(tenant));
    create_client_key(&harness.vault, operator, None, None).await.unwrap();
}

async fn create_moved_webhook(harness: &VaultHarness, tenant: &Arc<Tenant>) {
    let operator = PolicyPermit::for_operator(Arc::clone(tenant));
    create_webhook(&harness.vault, operator, webhook_draft("moved"), None).await.unwrap();
}

/// Creates a token of the tenant and deletes the tenant. The token is not purged yet.
async fn delete_tenant_with_token(harness: &VaultHarness, tenant: &Arc<Tenant>) {
    let caller = harness
        .caller(tenant, access_with_rules([access_rule("/", Transform::Reveal, ALL_PERMISSIONS)]))
        .await;
    create(&harness.vault, &caller, card(VISA)).await.unwrap();
    delete_tenant(&harness.vault, PolicyPermit::for_operator(Arc::clone(tenant))).await.unwrap();
}

async fn prune(harness: &VaultHarness) {
    let mut pruned_count = 0;
    for chain in prune_logs(&harness.vault, &harness.directory().await).await.unwrap() {
        while let count @ 1.. = harness.vault.store.prune_chain(chain.clone()).await.unwrap() {
            pruned_count += count;
        }
    }
    assert!(pruned_count > 0);
}

async fn describe_policy_and_logs(store: &dyn Store) -> String {
    let mut directory = store.load_directory().await.unwrap();
    directory.tenants.sort_by_key(|it| it.tenant.record.id.0);
    for tenant in &mut directory.tenants {
        tenant.applications.sort_by_key(|it| it.record.id.0);
        tenant.api_keys.sort_by_key(|it| it.record.id.0);
        tenant.proxies.sort_by_key(|it| it.record.id.0);
        tenant.webhooks.sort_by_key(|it| it.record.id.0);
        tenant.client_keys.sort_by_key(|it| it.record.id.0);
    }
    let mut output = format!("{directory:?}\n{:?}\n", store.load_watermark().await.unwrap());
    for log in LogKind::ALL {
        let mut heads = store.list_heads(log).await.unwrap();
        heads.sort_by_key(|it| it.tenant.0);
        for head in heads {
            let records = store.list_records(log, head.tenant, 0, 10_000).await.unwrap();
            let checkpoint = store.find_checkpoint(log, head.tenant).await.unwrap();
            output += &format!("{head:?} {checkpoint:?} {records:?}\n");
        }
    }
    let status = store.status().await.unwrap();
    let counts = status.counts.iter().filter(|it| it.0 != "verification_codes");
    output + &format!("{:?} {:?}", counts.collect::<Vec<_>>(), status.key_versions)
}

/// Describes all rows in an order that does not depend on the engine. The tokens of a tenant keep
/// their order.
pub(crate) async fn dump_rows(engine: &mut dyn TransferEngine) -> Vec<String> {
    let mut dump = Vec::new();
    engine.begin_reading().await.unwrap();
    for kind in RowKind::ALL {
        let mut kind_rows = Vec::new();
        let mut after = None;
        loop {
            let page = engine.read_page(kind, after.as_deref(), SMALL_PAGES).await.unwrap();
            if page.rows.is_empty() {
                break;
            }
            kind_rows.extend(page.rows);
            after = Some(page.position);
        }
        assert_eq!(engine.count_rows(kind).await.unwrap(), u64::try_from(kind_rows.len()).unwrap());
        let sort_key = |row: &TransferRow| {
            if kind == RowKind::Tokens { describe(&row[..1]) } else { describe(row) }
        };
        kind_rows.sort_by_key(sort_key);
        dump.extend(kind_rows.iter().map(|it| format!("{kind:?} {}", describe(it))));
    }
    dump.push(format!("{} entries", engine.count_index_entries().await.unwrap()));
    engine.end_reading().await.unwrap();
    dump
}

/// The values of a row, which do not show themselves in logs.
fn describe(row: &[RowValue<'_>]) -> String {
    let describe_value = |value: &RowValue<'_>| match value {
        RowValue::Null => "NULL; ".to_owned(),
        RowValue::Id(id) => format!("{id}; "),
        RowValue::Number(number) => format!("{number}; "),
        RowValue::Text(text) => format!("{text:?}; "),
        RowValue::Bytes(bytes) => format!("{bytes:?}; "),
    };
    row.iter().map(describe_value).collect()
}

pub(crate) const SMALL_PAGES: PageBounds = PageBounds { rows_max: 7, bytes_max: 4096 };

/// Creates a folder for an export file. Returns the folder and the path of the file.
pub(crate) fn export_folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("export");
    (folder, file)
}

fn open_file(path: &Path) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

pub(crate) async fn run_export(
    engine: &mut dyn TransferEngine,
    path: &Path,
    bounds: PageBounds,
) -> Result<ExportResult, TransferError> {
    let report_progress = &mut |_| ();
    let options = ExportOptions { program: "test", created_at_unix_ms: 7, bounds, report_progress };
    export(engine, &mut open_file(path), options).await
}

pub(crate) async fn run_import(
    engine: &mut dyn TransferEngine,
    path: &Path,
) -> Result<ImportResult, TransferError> {
    let checked_export = CheckedExport::check(open_file(path), |_, _| ())?;
    import(engine, checked_export, &mut |_, _| ()).await
}
