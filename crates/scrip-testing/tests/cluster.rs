//! The cluster does what those who test with it count on.

use scrip_testing::postgres::cluster::{Cluster, Replication};

fn count(cluster: &Cluster) -> Vec<String> {
    cluster.query("SELECT count(*) FROM it")
}

#[test]
fn what_was_committed_outlives_a_kill_and_a_failover() {
    let mut cluster = Cluster::start(&[]);
    let role = cluster.query("SELECT rolsuper::text FROM pg_roles WHERE rolname = 'scrip'");
    assert_eq!(role, ["false"]);
    for setting in ["fsync", "full_page_writes", "synchronous_commit"] {
        assert_eq!(cluster.query(&format!("SHOW {setting}")), ["on"]);
    }
    cluster.query("CREATE TABLE it (n INTEGER)");
    cluster.query("INSERT INTO it VALUES (1)");
    let before = cluster.query("SELECT pg_postmaster_start_time()::text");
    cluster.kill();
    cluster.revive();
    assert_ne!(cluster.query("SELECT pg_postmaster_start_time()::text"), before);
    assert_eq!(count(&cluster), ["1"]);
    // There and back again.
    for expected in ["2", "3"] {
        cluster.add_standby(Replication::Synchronous);
        cluster.query("INSERT INTO it VALUES (2)");
        cluster.fail_over();
        assert_eq!(count(&cluster), [expected]);
    }
}

#[test]
fn a_standby_that_is_cut_off_lacks_what_came_after() {
    let mut cluster = Cluster::start(&[]);
    cluster.query("CREATE TABLE it (n INTEGER)");
    cluster.add_standby(Replication::Asynchronous);
    cluster.cut_off_standby();
    cluster.query("INSERT INTO it VALUES (1)");
    assert_eq!(count(&cluster), ["1"]);
    cluster.fail_over();
    assert_eq!(count(&cluster), ["0"]);
}
