//! A vault with something of everything in it, and all that it answers.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use scrip_core::{
    audit::{Log, NotedTime, Operation, Seen},
    id::{TokenId, TokenIntentId},
    idempotency::{Remember, Rendered},
    operations::{
        access_sessions::{
            authorize_access_session::{Authorization, authorize_access_session},
            create_access_session::create_access_session,
            resume_access_session::resume_access_session,
        },
        claim_answer::{Turn, claim_answer},
        logs::prune_logs::prune_logs,
        tenants::delete_tenant::delete_tenant,
        token_intents::{
            create_token_intent::create_token_intent, get_token_intent::get_token_intent,
        },
        tokens::create_token::create_token,
    },
    policy::{
        ApplicationKind, Caller, Mandate, Needs, Permission, Settings, Tenant, Transform,
        guessing_budget::{Bucket, GuessRecord},
    },
    store::Store,
    time::{KnownTime, Month},
    token::{NewTokenIntent, Plain, TokenRecord, TokenType},
};
use scrip_seal::{Fingerprint, IndexDigest};
use scrip_store::transfer::{
    Bounds, Exported, Exporting, Imported, Kind, MoveError, Rows, Value, Whole, export, import,
};
use scrip_testing::{
    clock::START,
    policy::{rule, ruled},
    requests::{DEBIT, VISA, card, card_with_cvc, create, data, get},
    store_harness::{DAY, StoreHarness, record},
    vault_harness::{Engine, VaultHarness, containers, origin},
};
use serde_json::json;
use tempfile::TempDir;

use crate::listing::complete_lists::lists;

/// Who knows what is in it.
pub(crate) struct TransferHarness {
    pub(crate) world: VaultHarness,
    pub(crate) known: Known,
}

#[derive(Clone)]
pub(crate) struct Known {
    keys: [String; 2],
    session_key: String,
    pub(crate) cards: [TokenId; 2],
    intent: TokenIntentId,
    pub(crate) tenants: Vec<Arc<Tenant>>,
}

const ALL: &[Permission] = &[
    Permission::TokenCreate,
    Permission::TokenRead,
    Permission::TokenUpdate,
    Permission::TokenDelete,
    Permission::TokenIntentCreate,
    Permission::TokenIntentRead,
];

pub(crate) const IDEMPOTENCY_KEY: &[u8] = b"order-7";
pub(crate) const CODE: &str = "918";

/// When everything has been made.
fn later() -> scrip_core::time::Timestamp {
    START.after(DAY * 40)
}

fn sample(at: u8) -> TokenRecord {
    let of = [TokenType::Card, TokenType::Token, TokenType::Bank];
    let places: [&[&str]; 4] = [&["/a/"], &["/b/"], &["/c/"], &["/a/", "/b/"]];
    TokenRecord {
        token_type: of[usize::from(at % 3)],
        fingerprint: (!at.is_multiple_of(4)).then_some(Fingerprint([at % 3; 32])),
        containers: containers(places[usize::from(at % 4)]),
        indexes: (at % 5 > 1).then_some(IndexDigest([8 + at % 3; 16])).into_iter().collect(),
        // Several of one instant.
        created_at: START.after(Duration::from_millis(u64::from(at / 6))),
        expires_at: at.is_multiple_of(7).then_some(later().after(DAY)),
        ..record(&format!("sample-{at}"))
    }
}

impl TransferHarness {
    pub(crate) async fn open(engine: Engine) -> Self {
        let world = VaultHarness::open(engine).await;
        let dedup = Settings { deduplicate_tokens: true, ..Settings::default() };
        let mut tenants = Vec::new();
        for settings in [dedup, Settings::default(), Settings::default()] {
            tenants.push(world.tenant(settings).await);
        }
        let rights = || ruled([rule("/", Transform::Reveal, ALL)]);
        let private = ApplicationKind::Private;
        let keys = [
            world.key_of(&tenants[0], private, rights()).await,
            world.key_of(&tenants[1], private, rights()).await,
        ];
        let [ours, theirs] = [world.known(&keys[0]).await, world.known(&keys[1]).await];
        // Old records, of which only where they ended is left.
        let old = create(&world.vault, &ours, card("4000002500003155")).await.unwrap().token.id;
        get(&world.vault, &ours, &old).await;
        world.clock.set(later());
        let cards = make_cards(&world, &ours).await;
        get(&world.vault, &ours, &old).await;
        let data = Plain::new(json!({"number": DEBIT, "cvc": CODE}));
        let new = NewTokenIntent {
            token_type: TokenType::Card,
            data,
            containers: None,
            authentication: None,
        };
        let intent = create_token_intent(&world.vault, &ours, new, None).await.unwrap().id;
        let session_key = make_session(&world, &tenants[0], &ours).await;
        delete_one(&world, &tenants[2]).await;
        prune(&world).await;
        let known = Known { keys, session_key, cards, intent, tenants };
        let mut desk = StoreHarness { caller: ours, stranger: theirs, world };
        let counted = GuessRecord {
            bucket: Bucket([1; 17]),
            number: [2; 16],
            at: later(),
            expires_at: later().after(DAY),
        };
        let tenant = desk.caller.tenant().id;
        desk.store().insert_guesses(tenant, vec![counted]).await.unwrap();
        for at in 0..40 {
            desk.insert(sample(at)).await;
            desk = desk.turned();
        }
        desk.insert_session(desk.written(desk.session(1), &[1, 2, 3])).await.unwrap();
        let seen = vec![Seen::new("sample-0", "revealed")];
        desk.world.vault.record_seen(&desk.caller, Operation::GetToken, seen).await.unwrap();
        let time = KnownTime { now: later(), earliest: START };
        let key = desk.world.vault.audit.key().unwrap();
        desk.store().note_time(NotedTime::new(key, time)).await.unwrap();
        Self { world: desk.world, known }
    }

    /// What another vault answers to the same people.
    pub(crate) async fn on(mut world: VaultHarness, known: &Known) -> Self {
        world.clock.set(later());
        world.open_again().await;
        Self { world, known: known.clone() }
    }

    pub(crate) async fn caller(&self, at: usize) -> Caller {
        self.world.known(&self.known.keys[at]).await
    }

    /// Everything that can be asked for. What is only an engine's own is left out.
    pub(crate) async fn answers(self) -> (Self, String) {
        let [caller, stranger] = [self.caller(0).await, self.caller(1).await];
        let Self { world, known } = self;
        let mut desk = StoreHarness { caller, stranger, world };
        let mut said = String::new();
        for _ in 0..2 {
            said += &lists(&desk).await;
            for at in 0..40 {
                said += &format!("{:?}\n", desk.find(&format!("sample-{at}")).await);
            }
            let tenant = known.tenants.iter().find(|it| it.id == desk.caller.tenant().id);
            let mandate = Mandate::of_operator(Arc::clone(tenant.unwrap()));
            for month in [START, later()].map(Month::of) {
                let usage = desk.store().find_usage(&mandate, month).await.unwrap();
                said += &format!("{usage:?}\n");
            }
            desk = desk.turned();
        }
        said += &policy_and_logs(desk.store()).await;
        said += &format!("{:?}\n", desk.store().list_events(0, 100).await.unwrap());
        let id = desk.session(1).id;
        let session = desk.store().find_notified_session(id, desk.now()).await.unwrap();
        said += &format!("{session:?}\n");
        let StoreHarness { world, .. } = desk;
        (Self { world, known }, said)
    }

    /// What leaves a record; and what is open only to who has the keys.
    pub(crate) async fn check_use(&self) {
        let vault = &self.world.vault;
        let caller = self.caller(0).await;
        for (id, number) in self.known.cards.iter().zip([VISA, DEBIT]) {
            let shown = data(&get(vault, &caller, id).await).unwrap();
            assert_eq!(shown["number"], number);
            // The same card is the same token.
            let again = create(vault, &caller, card(number)).await.unwrap();
            assert_eq!((again.token.id, again.deduplicated.is_some()), (id.clone(), true));
        }
        let replay =
            claim_answer(vault, &caller, Operation::CreateToken, IDEMPOTENCY_KEY, None).await;
        assert!(matches!(replay, Ok(Turn::Replay(it)) if it.tokens.len() == 1));
        let intent = get_token_intent(vault, &caller, self.known.intent).await.unwrap();
        assert_eq!(intent.id, self.known.intent);
        let directory = self.world.directory().await;
        assert_eq!(directory.alterations(), &[]);
        let resumed = resume_access_session(vault, &directory, &self.known.session_key).await;
        let resumed = Caller::new(Arc::new(resumed.unwrap().unwrap()), origin());
        assert!(resumed.meets(Needs::Permission(Permission::TokenRead)).is_ok());
        // What the deleted tenant left goes, here as there.
        vault.audit.open(directory.audit_key());
        let mut purged = 0;
        while let some @ 1.. =
            scrip_core::operations::tenants::purge_tenants::purge_tenants(vault, &[]).await.unwrap()
        {
            purged += some;
        }
        assert!(purged > 0);
    }
}

async fn make_cards(world: &VaultHarness, caller: &Caller) -> [TokenId; 2] {
    let Turn::Proceed(claim) =
        claim_answer(&world.vault, caller, Operation::CreateToken, IDEMPOTENCY_KEY, None)
            .await
            .unwrap()
    else {
        panic!("nothing is remembered yet")
    };
    let remember = Remember::new(claim, |written: &scrip_core::token::Written| {
        Rendered::of_token(201, written.token.id.as_str().to_owned())
    });
    let new = card_with_cvc(VISA, CODE);
    let first = create_token(&world.vault, caller, new, Some(remember)).await.unwrap().token.id;
    let second = create(&world.vault, caller, card(DEBIT)).await.unwrap().token.id;
    [first, second]
}

async fn make_session(world: &VaultHarness, tenant: &Arc<Tenant>, private: &Caller) -> String {
    let makes = ruled([rule("/", Transform::Mask, &[Permission::TokenCreate])]);
    let public = world.caller_of(tenant, ApplicationKind::Public, makes).await;
    let directory = world.directory().await;
    let mandate = public.mandate(Needs::Kind(ApplicationKind::Public)).unwrap();
    let session = create_access_session(&world.vault, mandate, directory.pepper()).await.unwrap();
    let access = ruled([rule("/a/", Transform::Mask, &[Permission::TokenRead])]);
    let asked = Authorization { nonce: session.nonce, access, expires_at: None };
    let mandate = private.mandate(Needs::Kind(ApplicationKind::Private)).unwrap();
    let done = authorize_access_session(&world.vault, mandate, directory.pepper(), asked, None);
    done.await.unwrap();
    session.key.expose().to_owned()
}

/// Its tokens are still to be removed.
async fn delete_one(world: &VaultHarness, tenant: &Arc<Tenant>) {
    let caller = world.caller(tenant, ruled([rule("/", Transform::Reveal, ALL)])).await;
    create(&world.vault, &caller, card(VISA)).await.unwrap();
    delete_tenant(&world.vault, Mandate::of_operator(Arc::clone(tenant))).await.unwrap();
}

async fn prune(world: &VaultHarness) {
    let mut pruned = 0;
    for chain in prune_logs(&world.vault, &world.directory().await).await.unwrap() {
        while let some @ 1.. = world.vault.store.prune_chain(chain.clone()).await.unwrap() {
            pruned += some;
        }
    }
    assert!(pruned > 0);
}

async fn policy_and_logs(store: &dyn Store) -> String {
    let mut directory = store.load_directory().await.unwrap();
    directory.tenants.sort_by_key(|it| it.tenant.record.id.0);
    for tenant in &mut directory.tenants {
        tenant.applications.sort_by_key(|it| it.record.id.0);
        tenant.api_keys.sort_by_key(|it| it.record.id.0);
    }
    let mut said = format!("{directory:?}\n{:?}\n", store.known_time().await.unwrap());
    for log in Log::ALL {
        let mut heads = store.list_heads(log).await.unwrap();
        heads.sort_by_key(|it| it.tenant.0);
        for head in heads {
            let records = store.list_records(log, head.tenant, 0, 10_000).await.unwrap();
            let checkpoint = store.find_checkpoint(log, head.tenant).await.unwrap();
            said += &format!("{head:?} {checkpoint:?} {records:?}\n");
        }
    }
    let status = store.status().await.unwrap();
    let counts = status.counts.iter().filter(|it| it.0 != "verification_codes");
    said + &format!("{:?} {:?}", counts.collect::<Vec<_>>(), status.key_versions)
}

/// Every row, whatever the order that an engine has; but the order of a tenant's tokens.
pub(crate) async fn dump(rows: &mut dyn Rows) -> Vec<String> {
    let mut all = Vec::new();
    rows.begin_reading().await.unwrap();
    for kind in Kind::ALL {
        let mut of_kind = Vec::new();
        let mut after = None;
        loop {
            let page = rows.page(kind, after.as_deref(), SMALL).await.unwrap();
            if page.rows.is_empty() {
                break;
            }
            of_kind.extend(page.rows);
            after = Some(page.position);
        }
        assert_eq!(rows.count(kind).await.unwrap(), u64::try_from(of_kind.len()).unwrap());
        let by = |row: &Vec<Value>| {
            if kind == Kind::Tokens { format!("{:?}", row[0]) } else { format!("{row:?}") }
        };
        of_kind.sort_by_key(by);
        all.extend(of_kind.iter().map(|it| format!("{kind:?} {it:?}")));
    }
    all.push(format!("{} entries", rows.count_entries().await.unwrap()));
    rows.end_reading().await.unwrap();
    all
}

pub(crate) const SMALL: Bounds = Bounds { rows: 7, bytes: 4096 };

/// A folder for files of exports.
pub(crate) fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("export");
    (folder, file)
}

fn opened(path: &Path) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

pub(crate) async fn exported(
    rows: &mut dyn Rows,
    path: &Path,
    bounds: Bounds,
) -> Result<Exported, MoveError> {
    let watch = &mut |_| ();
    let exporting = Exporting { program: "test", made_at_unix_ms: 7, bounds, watch };
    export(rows, &mut opened(path), exporting).await
}

pub(crate) async fn imported(rows: &mut dyn Rows, path: &Path) -> Result<Imported, MoveError> {
    let whole = Whole::check(opened(path), |_, _| ())?;
    import(rows, whole, &mut |_, _| ()).await
}
