//! Both logs: what is recorded, in which order, and what is pruned.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    audit::{
        AuditTrail, Log, LogRecord, Operation, Reads, Seen,
        verify::{Ends, Verifier},
    },
    error::Error,
    operations::{
        logs::prune_logs::prune_logs,
        tenants::delete_tenant::{delete_tenant, delete_tenant_by_id},
        tokens::{delete_token::delete_token, get_token::get_token},
    },
    policy::{Caller, Mandate, Settings, Tenant, Transform},
};
use scrip_testing::{
    clock::START,
    policy::{TOKENS, rule, ruled},
    requests::{VISA, card, create},
    vault_harness::{VaultHarness, token_id},
};

const HOUR: Duration = Duration::from_secs(60 * 60);

on_every_engine! {
    VaultHarness;
    a_life_is_recorded_in_order
    what_one_call_saw_is_one_stretch
    switched_off_it_records_nothing
    a_quota_says_how_long_records_are_kept
    the_records_of_a_deleted_tenant_are_kept_as_it_wanted
    of_a_tenant_that_nobody_could_read_all_is_kept
    a_command_with_a_wrong_clock_keeps_no_other_records
}

async fn opened(world: &VaultHarness) -> (Arc<Tenant>, Caller) {
    let tenant = world.tenant(Settings::default()).await;
    let caller = world.caller(&tenant, ruled([rule("/", Transform::Mask, TOKENS)])).await;
    (tenant, caller)
}

async fn records(world: &VaultHarness, tenant: &Tenant, log: Log) -> Vec<LogRecord> {
    world.vault.store.list_records(log, tenant.id, 0, 1000).await.unwrap()
}

fn words(records: &[LogRecord]) -> Vec<String> {
    let say =
        |it: &LogRecord| format!("{} {} {} {}", it.n, it.actor_kind, it.operation, it.outcome);
    records.iter().map(say).collect()
}

async fn a_life_is_recorded_in_order(world: VaultHarness) {
    let (tenant, caller) = opened(&world).await;
    let id = create(&world.vault, &caller, card(VISA)).await.unwrap().token.id;
    get_token(&world.vault, &caller, &id).await.unwrap();
    delete_token(&world.vault, &caller, &id).await.unwrap();
    assert!(matches!(get_token(&world.vault, &caller, &id).await, Err(Error::NotFound)));
    let audit = records(&world, &tenant, Log::Audit).await;
    let expected = [
        "1 operator create_tenant done",
        "2 operator create_application done",
        "3 application create_token created",
        "4 application delete_token deleted",
    ];
    assert_eq!(words(&audit), expected);
    let access = records(&world, &tenant, Log::Access).await;
    assert_eq!(words(&access), ["1 application get_token masked"]);
    assert!(access.iter().chain(&audit[2..]).all(|it| it.entity == id.as_str()));
    assert_eq!(access[0].actor, Some(caller.application()));
    assert_eq!((&*access[0].trace, &*access[0].address), ("test", "127.0.0.1"));
    assert_eq!(
        words(&world.vault.store.list_records(Log::Audit, tenant.id, 2, 1).await.unwrap()),
        [expected[2]]
    );

    for (log, records) in [(Log::Audit, audit), (Log::Access, access)] {
        let chains = world.vault.store.list_chains(log).await.unwrap();
        assert_eq!(chains.len(), 1);
        assert_eq!(world.vault.store.list_heads(log).await.unwrap(), [chains[0].head]);
        assert_eq!(chains[0].oldest, records.first().map(|it| it.at));
        let ends = Ends { heads: chains.iter().map(|it| it.head).collect(), ..Ends::default() };
        let key = Arc::clone(world.vault.audit.key().unwrap());
        let mut verifier = Verifier::new(log, key, ends, &[]);
        records.iter().for_each(|it| verifier.take(&it.row()));
        assert_eq!(verifier.finish(&[tenant.id]).problems, []);
    }
}

async fn what_one_call_saw_is_one_stretch(world: VaultHarness) {
    let (tenant, caller) = opened(&world).await;
    let (_, neighbour) = opened(&world).await;
    let see = async |caller: &Caller, names: &[&str]| {
        let seen = names.iter().map(|it| Seen::new(*it, "revealed")).collect();
        world.vault.record_seen(caller, Operation::Detokenize, seen).await.unwrap();
    };
    see(&caller, &["one", "two"]).await;
    tokio::join!(
        see(&caller, &["three", "four"]),
        see(&neighbour, &["a", "b"]),
        see(&caller, &["five"])
    );
    see(&caller, &[]).await;
    let access = records(&world, &tenant, Log::Access).await;
    assert!(access.iter().map(|it| it.n).eq(1..=5));
    let names: Vec<_> = access.iter().map(|it| it.entity.as_str()).collect();
    assert_eq!(names[..2], ["one", "two"]);
    let three = names.iter().position(|it| *it == "three").unwrap();
    assert_eq!(names[three + 1], "four");
    assert_eq!(records(&world, neighbour.tenant(), Log::Access).await.len(), 2);
}

async fn switched_off_it_records_nothing(mut world: VaultHarness) {
    let (tenant, caller) = opened(&world).await;
    let key = Arc::clone(world.vault.audit.key().unwrap());
    world.vault.audit = Arc::new(AuditTrail::new(Reads::Off));
    world.vault.audit.open(&key);
    let id = create(&world.vault, &caller, card(VISA)).await.unwrap().token.id;
    get_token(&world.vault, &caller, &id).await.unwrap();
    assert_eq!(records(&world, &tenant, Log::Access).await, []);
    assert_eq!(records(&world, &tenant, Log::Audit).await.len(), 3);
}

/// In as many steps as it takes.
async fn prune(world: &VaultHarness) {
    for chain in prune_logs(&world.vault, &world.directory().await).await.unwrap() {
        while world.vault.store.prune_chain(chain.clone()).await.unwrap() > 0 {}
    }
}

async fn counts(world: &VaultHarness, tenant: &Tenant) -> [usize; 2] {
    [
        records(world, tenant, Log::Audit).await.len(),
        records(world, tenant, Log::Access).await.len(),
    ]
}

async fn a_quota_says_how_long_records_are_kept(world: VaultHarness) {
    let (tenant, caller) = opened(&world).await;
    let see = async || {
        let id = create(&world.vault, &caller, card(VISA)).await.unwrap().token.id;
        get_token(&world.vault, &caller, &id).await.unwrap();
    };
    for _ in 0..200 {
        see().await;
    }
    world.clock.advance(23 * HOUR);
    see().await;
    prune(&world).await;
    assert_eq!(counts(&world, &tenant).await, [203, 201]);
    // A day is not over before it is.
    world.clock.advance(HOUR);
    prune(&world).await;
    assert_eq!(counts(&world, &tenant).await, [203, 201]);
    world.clock.advance(Duration::from_millis(1));
    prune(&world).await;
    assert_eq!(counts(&world, &tenant).await, [1, 1]);
    see().await;
    let audit = records(&world, &tenant, Log::Audit).await;
    assert!(audit.iter().map(|it| it.n).eq([203, 204]));
    world.clock.advance(48 * HOUR);
    prune(&world).await;
    assert_eq!(counts(&world, &tenant).await, [0, 0]);
    // It goes on where it was.
    see().await;
    assert_eq!(records(&world, &tenant, Log::Audit).await[0].n, 205);
    assert_eq!(records(&world, &tenant, Log::Access).await[0].n, 203);
}

async fn the_records_of_a_deleted_tenant_are_kept_as_it_wanted(world: VaultHarness) {
    let (tenant, caller) = opened(&world).await;
    let id = create(&world.vault, &caller, card(VISA)).await.unwrap().token.id;
    get_token(&world.vault, &caller, &id).await.unwrap();
    delete_tenant(&world.vault, Mandate::of_operator(Arc::clone(&tenant))).await.unwrap();
    while scrip_core::operations::tenants::purge_tenants::purge_tenants(&world.vault, &[])
        .await
        .unwrap()
        > 0
    {}
    assert_eq!(counts(&world, &tenant).await, [4, 1]);
    world.clock.advance(24 * HOUR);
    prune(&world).await;
    assert_eq!(counts(&world, &tenant).await, [4, 1]);
    world.clock.advance(HOUR);
    prune(&world).await;
    assert_eq!(counts(&world, &tenant).await, [0, 0]);
    for log in Log::ALL {
        assert_eq!(world.vault.store.list_chains(log).await.unwrap().len(), 1);
    }
}

async fn of_a_tenant_that_nobody_could_read_all_is_kept(world: VaultHarness) {
    let (tenant, caller) = opened(&world).await;
    assert!(get_token(&world.vault, &caller, &token_id("none")).await.is_err());
    delete_tenant_by_id(&world.vault, tenant.id, None).await.unwrap();
    world.clock.advance(24 * 365 * HOUR);
    prune(&world).await;
    assert_eq!(counts(&world, &tenant).await, [3, 0]);
}

/// A command brings the clock of its machine. What a server wrote is believed.
async fn a_command_with_a_wrong_clock_keeps_no_other_records(world: VaultHarness) {
    let ahead = START.after(24 * 1000 * HOUR);
    world.clock.set(ahead);
    let (tenant, caller) = opened(&world).await;
    prune(&world).await;
    assert_eq!(records(&world, &tenant, Log::Audit).await.len(), 2);
    world.clock.set(START);
    create(&world.vault, &caller, card(VISA)).await.unwrap();
    world.clock.advance(24 * HOUR);
    prune(&world).await;
    assert_eq!(records(&world, &tenant, Log::Audit).await.len(), 3, "none is due");

    world.clock.set(ahead);
    create(&world.vault, &caller, card(VISA)).await.unwrap();
    world.clock.set(START.after(HOUR));
    create(&world.vault, &caller, card(VISA)).await.unwrap();
    world.clock.advance(48 * HOUR);
    prune(&world).await;
    let left: Vec<_> =
        records(&world, &tenant, Log::Audit).await.iter().map(|it| (it.n, it.at)).collect();
    assert_eq!(left, [(4, ahead), (5, START.after(HOUR))]);
}
