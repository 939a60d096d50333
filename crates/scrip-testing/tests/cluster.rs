//! The guarantees of the test cluster.

use scrip_testing::postgres::cluster::{Cluster, Replication};

fn count_rows(cluster: &Cluster) -> Vec<String> {
    cluster.query_primary("SELECT count(*) FROM it")
}

#[test]
fn committed_rows_survive_a_kill_and_a_failover() {
    let mut cluster = Cluster::start(&[]);
    let is_superuser =
        cluster.query_primary("SELECT rolsuper::text FROM pg_roles WHERE rolname = 'scrip'");
    assert_eq!(is_superuser, ["false"]);
    for setting in ["fsync", "full_page_writes", "synchronous_commit"] {
        assert_eq!(cluster.query_primary(&format!("SHOW {setting}")), ["on"]);
    }
    cluster.query_primary("CREATE TABLE it (n INTEGER)");
    cluster.query_primary("INSERT INTO it VALUES (1)");
    let start_time = cluster.query_primary("SELECT pg_postmaster_start_time()::text");
    cluster.kill_primary();
    cluster.restart_primary();
    assert_ne!(cluster.query_primary("SELECT pg_postmaster_start_time()::text"), start_time);
    assert_eq!(count_rows(&cluster), ["1"]);
    // Fail over, and then back.
    for expected in ["2", "3"] {
        cluster.add_standby(Replication::Synchronous);
        cluster.query_primary("INSERT INTO it VALUES (2)");
        cluster.fail_over();
        assert_eq!(count_rows(&cluster), [expected]);
    }
}

#[test]
fn disconnected_standby_lacks_later_commits() {
    let mut cluster = Cluster::start(&[]);
    cluster.query_primary("CREATE TABLE it (n INTEGER)");
    cluster.add_standby(Replication::Asynchronous);
    cluster.disconnect_standby();
    cluster.query_primary("INSERT INTO it VALUES (1)");
    assert_eq!(count_rows(&cluster), ["1"]);
    cluster.fail_over();
    assert_eq!(count_rows(&cluster), ["0"]);
}
