//! The effects of a lost connection.

use super::*;

#[test]
fn a_cluster_that_routes_may_still_use_outlives_a_lost_connection() {
    let mut envoy = Envoy::start(settled_store(Variant::Delta, world(["a"])));
    envoy.run();
    envoy.reconnect();
    envoy.wire();
    // The cluster is renamed while the client is disconnected. The new stream knows the old cluster only from the
    // client.
    envoy.publish(world(["b"]));
    envoy.run();
    assert_eq!(envoy.wire(), "CDS{b} EDS{b} RDS{r}");
    envoy.wait(GRACE);
    envoy.run();
    assert_eq!(envoy.wire(), "CDS-{a}");
    envoy.assert_current();
    assert_eq!(envoy.failures, [""; 0]);
}

#[test]
fn a_cluster_that_changed_while_the_connection_was_lost_gets_its_endpoints() {
    for variant in VARIANTS {
        let mut envoy = Envoy::start(settled_store(variant, world(["a"])));
        envoy.run();
        let mut changed = world(["a"]);
        changed[0] = cluster_at("a", 1);
        envoy.publish(changed);
        envoy.reconnect();
        envoy.run();
        envoy.assert_current();
        envoy.wait(ms(16_000));
        assert_eq!(envoy.fetch_timeouts, 0);
    }
}

#[test]
fn a_cluster_does_not_warm_forever_after_a_lost_connection() {
    for variant in VARIANTS {
        for with_endpoints in [true, false] {
            let mut envoy = Envoy::start(settled_store(variant, world(["a"])));
            envoy.run();
            let mut two = world(["a"]);
            two.push(cluster("b"));
            if with_endpoints {
                two.push(endpoints("b"));
            }
            envoy.publish(two);
            envoy.step_client();
            envoy.reconnect();
            envoy.run();
            envoy.assert_current();
            assert_eq!(envoy.fetch_timeouts, 0);
        }
    }
}
