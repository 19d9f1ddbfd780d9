//! The incidents: for each code at least one that triggers it and one that looks like it and must not.

use kubectl_rancher_lease::Question;
use rancher_common::kinds::{DEPLOYMENTS, LEASES, NODES, PODS};
use rancher_common::rancher::MANAGEMENT_CLUSTERS;
use serde_json::json;

use crate::world::{
    CLUSTERS, DAY, DEV, GONE, HOUR, MINUTE, NAMESPACE, NODE_NAMES, REPLICAS, World, cluster, config_map, crash_loop,
    deployment, event, host_network, lease, local_cluster, micro, node_object, not_ready, other_deployment,
    other_lease, pod, released_lease, restarted, terminating, uid,
};

/// What an incident is kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The code of its name must be reported.
    Triggers,
    /// The code of its name must not be reported.
    LooksLike,
}

/// What `fix` makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// There is a plan.
    Plan,
    /// All is well.
    Nothing,
    /// A problem that is not repaired from here.
    Refused,
    /// Waiting solves it.
    Wait,
}

/// One incident.
pub(crate) struct Incident {
    /// Begins with the code.
    pub name: &'static str,
    /// See [`Role`].
    pub role: Role,
    /// What happened, in one sentence.
    pub story: &'static str,
    /// The cluster.
    pub world: World,
    /// All codes that are reported, sorted.
    pub codes: &'static [&'static str],
    /// Exit code of `check`.
    pub exit_code: u8,
    /// What `fix` would do.
    pub treatment: Treatment,
}

impl Incident {
    /// The code that it is about.
    pub(crate) fn code(&self) -> String {
        self.name.split('-').next().unwrap_or_default().to_uppercase()
    }
}

use Role::{LooksLike, Triggers};
use Treatment::{Nothing, Plan, Refused, Wait};

fn build(change: impl FnOnce(&mut World)) -> World {
    from(World::healthy(), change)
}

fn from(mut world: World, change: impl FnOnce(&mut World)) -> World {
    change(&mut world);
    world
}

const ALL_CLUSTERS: [&str; 5] = [CLUSTERS[0].0, CLUSTERS[1].0, CLUSTERS[2].0, CLUSTERS[3].0, CLUSTERS[4].0];

const WAITING: &str = "attempting to acquire leader lease kube-system/cattle-controllers...";
const FORBIDDEN: &str = "E1201 00:00:00.000000 1 leaderelection.go:332] error retrieving resource lock kube-system/cattle-controllers: leases.coordination.k8s.io \"cattle-controllers\" is forbidden: User \"system:serviceaccount:cattle-system:rancher\" cannot get resource \"leases\" in API group \"coordination.k8s.io\" in the namespace \"kube-system\"";
const SLOW: &str = "E1130 22:00:00.000000 1 leaderelection.go:332] error retrieving resource lock kube-system/cattle-controllers: Get \"https://192.0.2.1:443/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cattle-controllers?timeout=15m0s\": context deadline exceeded";
const LOST: &str = "2026/11/30 22:00:00 [FATAL] leaderelection lost for cattle-controllers";
const IMPERATIVE: &str = "2026/11/30 23:58:20 [FATAL] kube-apiserver did not contact the rancher imperative api in time, please see https://ranchermanager.example.com for more information";
const LEADER_FUNC: &str = "2026/11/30 23:59:00 [ERROR] failed to call leader func: failed to create CRD: customresourcedefinitions.apiextensions.k8s.io \"clusters.management.cattle.io\": Operation cannot be fulfilled";
const UNKNOWN_TOKEN: &str = "2026/11/30 23:50:00 [ERROR] Failed to handle tunnel request from remote address 198.51.100.24:51212 (X-Forwarded-For: 203.0.113.7): response 400: cluster not found";
const UNKNOWN_TOKEN_AGAIN: &str = "2026/11/30 23:51:00 [ERROR] Failed to handle tunnel request from remote address 198.51.100.24:51377 (X-Forwarded-For: 203.0.113.7): response 400: cluster not found";
const NO_AUTHENTICATION: &str = "2026/11/30 23:55:00 [ERROR] Failed to handle tunnel request from remote address 198.51.100.24:51400 (X-Forwarded-For: 203.0.113.9): response 401: failed authentication";
const DELETED_CLUSTER: &str = "2026/11/30 23:52:00 [ERROR] Failed to handle tunnel request from remote address 198.51.100.24:51380 (X-Forwarded-For: 203.0.113.8): response 400: clusters.management.cattle.io \"c-m-00gone00\" not found";

/// All of them.
pub(crate) fn all() -> Vec<Incident> {
    let mut all = Vec::new();
    for part in [leader, election, controllers, replicas, downstream, target] {
        all.extend(part());
    }
    all
}

fn incident(
    name: &'static str,
    role: Role,
    story: &'static str,
    world: World,
    codes: &'static [&'static str],
    exit_code: u8,
    treatment: Treatment,
) -> Incident {
    Incident { name, role, story, world, codes, exit_code, treatment }
}

/// RL101, RL102, RL109, RL111: who holds the Lease.
fn leader() -> Vec<Incident> {
    vec![
        incident(
            "rl101-holder-gone",
            Triggers,
            "The leader was killed under a record of 45 hours; the other replicas wait, and all agents have lost their connections.",
            from(World::leader_gone(DEV), |world| {
                world.disconnect(&ALL_CLUSTERS);
                for (name, started) in [(REPLICAS[0], 5 * DAY), (REPLICAS[1], 5 * DAY), (REPLICAS[2], 39 * MINUTE)] {
                    world.log(name, &[(started - 30, WAITING)]);
                }
            }),
            &["RL101", "RL130", "RL131"],
            3,
            Plan,
        ),
        incident(
            "rl101-holder-gone-deadline-over",
            Triggers,
            "A leader that died under CATTLE_ELECTION_LEASE_DURATION=4h, 41 minutes ago; its own RenewDeadline of 30s is over.",
            from(World::leader_gone(4 * HOUR), |world| {
                world.variable("CATTLE_ELECTION_LEASE_DURATION", "4h");
                world.put(NODES, node_object(NODE_NAMES[1], false));
            }),
            &["RL101", "RL131"],
            3,
            Plan,
        ),
        incident(
            "rl101-holder-gone-node-lost",
            Triggers,
            "The leader's pod is gone, but a node is not Ready: a process that still leads may be left there.",
            from(World::leader_gone(DEV), |world| world.put(NODES, node_object(NODE_NAMES[1], false))),
            &["RL101", "RL131"],
            3,
            Refused,
        ),
        incident(
            "rl101-all-starting",
            Triggers,
            "The leader died under a record of 45 hours, and the replicas that came instead are not Ready yet.",
            from(World::leader_gone(DEV), |world| {
                for (name, node) in REPLICAS.into_iter().zip(NODE_NAMES) {
                    world.put(PODS, pod(NAMESPACE, name, node, MINUTE));
                    world.edit(&PODS, name, not_ready);
                }
            }),
            &["RL101", "RL120", "RL131"],
            3,
            Refused,
        ),
        incident(
            "rl101-clock-behind",
            LooksLike,
            "The leader's clock is 41 minutes behind, so that renewTime looks old; but it changes.",
            build(|world| {
                world.put(LEASES, lease(REPLICAS[0], DEV, 41 * MINUTE));
                world.later(LEASES, lease(REPLICAS[0], DEV, 41 * MINUTE - 6));
                world.variable("CATTLE_DEV_MODE", "true");
            }),
            &["RL105"],
            0,
            Nothing,
        ),
        incident(
            "rl101-deleted-and-taken",
            LooksLike,
            "The Lease of a dead leader was deleted a moment ago, and between the two looks a replica has taken it.",
            build(|world| {
                world.put(LEASES, lease(GONE, DEV, 41 * MINUTE));
                world.later(LEASES, {
                    let mut taken = lease(REPLICAS[1], 45, -3);
                    taken["metadata"]["uid"] = json!(uid("the next Lease"));
                    taken["spec"]["acquireTime"] = taken["spec"]["renewTime"].clone();
                    taken
                });
            }),
            &[],
            0,
            Nothing,
        ),
        incident(
            "rl102-hung-leader",
            Triggers,
            "The leader's process runs on a Ready node, but has not renewed for 41 minutes under a record of 45 hours.",
            build(|world| {
                world.variable("CATTLE_DEV_MODE", "true");
                world.put(LEASES, lease(REPLICAS[0], DEV, 41 * MINUTE));
            }),
            &["RL102", "RL131"],
            3,
            Plan,
        ),
        incident(
            "rl102-node-cut-off",
            Triggers,
            "The leader's node is cut off; its process may go on leading for hours.",
            build(|world| {
                world.variable("CATTLE_DEV_MODE", "true");
                world.put(LEASES, lease(REPLICAS[0], DEV, 41 * MINUTE));
                world.put(NODES, node_object(NODE_NAMES[0], false));
                world.edit(&PODS, REPLICAS[0], not_ready);
            }),
            &["RL102", "RL131"],
            3,
            Refused,
        ),
        incident(
            "rl102-node-lost-for-long",
            Triggers,
            "The leader's node has been lost for 31 hours: longer than its RenewDeadline, shorter than its record.",
            build(|world| {
                world.variable("CATTLE_DEV_MODE", "true");
                world.put(LEASES, lease(REPLICAS[0], DEV, 31 * HOUR));
                world.put(NODES, node_object(NODE_NAMES[0], false));
                world.edit(&PODS, REPLICAS[0], |pod| {
                    not_ready(pod);
                    terminating(pod, -30 * HOUR);
                });
            }),
            &["RL102", "RL131"],
            3,
            Plan,
        ),
        incident(
            "rl102-process-ended",
            Triggers,
            "The leader's container was killed for its memory and is not started again; nobody released the Lease.",
            build(|world| {
                world.variable("CATTLE_DEV_MODE", "true");
                world.put(LEASES, lease(REPLICAS[0], DEV, 41 * MINUTE));
                world.edit(&PODS, REPLICAS[0], crash_loop);
            }),
            &["RL102", "RL131"],
            3,
            Plan,
        ),
        incident(
            "rl102-docker",
            Triggers,
            "Rancher's own container does not renew; containers cannot be seen through this API.",
            {
                let mut world = World::empty();
                world.add(LEASES, lease("3f9c1d7be520", 45, 41 * MINUTE));
                world.add(MANAGEMENT_CLUSTERS, local_cluster());
                world.add(MANAGEMENT_CLUSTERS, cluster(CLUSTERS[0].0, CLUSTERS[0].1, false));
                world.setting("server-version", "v2.13.2");
                world
            },
            &["RL102", "RL130", "RL131"],
            3,
            Refused,
        ),
        incident(
            "rl102-terminating",
            LooksLike,
            "The leader is being deleted in good order and has 20 seconds left to release the Lease.",
            build(|world| {
                world.variable("CATTLE_DEV_MODE", "true");
                world.put(LEASES, lease(REPLICAS[0], DEV, 12));
                world.edit(&PODS, REPLICAS[0], |pod| terminating(pod, 20));
            }),
            &["RL109"],
            0,
            Wait,
        ),
        incident(
            "rl102-clock-ahead",
            LooksLike,
            "The leader's clock is an hour ahead of the API server's; it renews.",
            build(|world| {
                world.put(LEASES, lease(REPLICAS[0], 45, -HOUR));
                world.later(LEASES, lease(REPLICAS[0], 45, -HOUR - 6));
            }),
            &[],
            0,
            Nothing,
        ),
        incident(
            "rl109-gone-a-moment-ago",
            Triggers,
            "The leader was killed 20 seconds ago; its record is good for 45.",
            build(|world| {
                world.put(LEASES, lease(GONE, 45, 20));
                world.put(PODS, pod(NAMESPACE, REPLICAS[0], NODE_NAMES[0], 10));
                world.edit(&PODS, REPLICAS[0], not_ready);
            }),
            &["RL109"],
            0,
            Wait,
        ),
        incident(
            "rl109-just-released",
            Triggers,
            "The leader ended in good order between the two looks.",
            build(|world| {
                world.put(LEASES, lease(REPLICAS[0], 45, 11));
                world.later(LEASES, released_lease(-4));
            }),
            &["RL109"],
            0,
            Wait,
        ),
        incident(
            "rl109-taken-over",
            LooksLike,
            "The leader was killed, and between the two looks another replica has taken over.",
            build(|world| {
                world.put(LEASES, lease(GONE, 45, 44));
                world.later(LEASES, lease(REPLICAS[2], 45, -5));
            }),
            &[],
            0,
            Nothing,
        ),
        incident(
            "rl111-another-rancher",
            Triggers,
            "A process that is none of the replicas holds the Lease and renews it.",
            build(|world| {
                world.put(LEASES, lease("rancher-staging-5f8c7d-q7wz2", 45, 1));
                world.later(LEASES, lease("rancher-staging-5f8c7d-q7wz2", 45, -5));
            }),
            &["RL111"],
            3,
            Refused,
        ),
        incident(
            "rl111-host-network",
            LooksLike,
            "With hostNetwork the holder is the leader's node, here by its short name.",
            build(|world| {
                for name in REPLICAS {
                    world.edit(&PODS, name, host_network);
                }
                world.put(LEASES, lease("node-1", 45, 1));
            }),
            &[],
            0,
            Nothing,
        ),
    ]
}

/// RL103, RL104, RL105, RL106, RL110: the election.
fn election() -> Vec<Incident> {
    vec![
        incident(
            "rl103-missing",
            Triggers,
            "There is no Lease, and all replicas crash before they take part in the election.",
            build(|world| {
                world.remove(&LEASES, |lease| lease["metadata"]["name"] == "cattle-controllers");
                for name in REPLICAS {
                    world.edit(&PODS, name, crash_loop);
                    world.previous_log(name, &[(102, IMPERATIVE)]);
                }
            }),
            &["RL103", "RL120", "RL131"],
            3,
            Refused,
        ),
        incident(
            "rl103-released",
            Triggers,
            "The Lease was released an hour ago, the replicas are Ready, and none may take it.",
            build(|world| {
                world.put(LEASES, released_lease(HOUR));
                for name in REPLICAS {
                    world.log(name, &[(9, FORBIDDEN), (2, FORBIDDEN)]);
                }
            }),
            &["RL103", "RL104", "RL131"],
            3,
            Refused,
        ),
        incident(
            "rl103-fresh-installation",
            LooksLike,
            "Rancher was installed a minute ago: there is no Lease yet.",
            build(|world| {
                world.remove(&LEASES, |lease| lease["metadata"]["name"] == "cattle-controllers");
                world.remove(&MANAGEMENT_CLUSTERS, |_| true);
                for (name, node) in REPLICAS.into_iter().zip(NODE_NAMES) {
                    world.put(PODS, pod(NAMESPACE, name, node, MINUTE));
                }
            }),
            &["RL109"],
            0,
            Wait,
        ),
        incident(
            "rl104-forbidden",
            Triggers,
            "The leader was killed two hours ago, its record is long over, and the ServiceAccount has lost its rights.",
            build(|world| {
                world.put(LEASES, lease(GONE, 45, 2 * HOUR));
                for name in REPLICAS {
                    world.log(name, &[(9, FORBIDDEN), (2, FORBIDDEN)]);
                }
            }),
            &["RL104", "RL131"],
            3,
            Refused,
        ),
        incident(
            "rl104-holder-stuck-too",
            Triggers,
            "The leader does not renew, its record is over, and the others do not take it: the API server is too slow for all.",
            build(|world| {
                world.put(LEASES, lease(REPLICAS[0], 45, 10 * MINUTE));
                for name in REPLICAS {
                    world.log(name, &[(19, SLOW), (4, SLOW)]);
                }
            }),
            &["RL104", "RL131"],
            3,
            Refused,
        ),
        incident(
            "rl104-forbidden-elsewhere",
            LooksLike,
            "The leader is well; a user was forbidden something, and one cluster is not connected.",
            build(|world| {
                world.disconnect(&ALL_CLUSTERS[..1]);
                world.log(
                    REPLICAS[0],
                    &[(
                        30,
                        "2026/11/30 23:59:30 [ERROR] pods is forbidden: User \"u-q7wz2\" cannot list resource \"pods\"",
                    )],
                );
            }),
            &["RL130"],
            0,
            Refused,
        ),
        incident(
            "rl105-development-mode",
            Triggers,
            "CATTLE_DEV_MODE is set: the Lease is good for 45 hours.",
            build(|world| {
                world.variable("CATTLE_DEV_MODE", "true");
                world.put(LEASES, lease(REPLICAS[0], DEV, 1));
            }),
            &["RL105"],
            0,
            Nothing,
        ),
        incident(
            "rl105-older-leader",
            Triggers,
            "The variable was removed from the Deployment, but the leader was started before that.",
            build(|world| world.put(LEASES, lease(REPLICAS[0], DEV, 1))),
            &["RL105"],
            0,
            Nothing,
        ),
        incident(
            "rl105-one-minute",
            LooksLike,
            "CATTLE_ELECTION_LEASE_DURATION is set to a minute, which hurts nobody.",
            build(|world| {
                world.variable("CATTLE_ELECTION_LEASE_DURATION", "1m");
                world.put(LEASES, lease(REPLICAS[0], 60, 1));
            }),
            &[],
            0,
            Nothing,
        ),
        incident(
            "rl106-one-node",
            Triggers,
            "Two replicas with hostNetwork run on one node.",
            build(|world| {
                for name in REPLICAS {
                    world.edit(&PODS, name, host_network);
                }
                world.edit(&PODS, REPLICAS[1], |pod| pod["spec"]["nodeName"] = json!(NODE_NAMES[0]));
                world.put(LEASES, lease(NODE_NAMES[0], 45, 1));
            }),
            &["RL106"],
            3,
            Refused,
        ),
        incident(
            "rl106-hostname",
            Triggers,
            "The pod template sets a hostname, which is the identity of all replicas then.",
            build(|world| {
                for name in REPLICAS {
                    world.edit(&PODS, name, |pod| pod["spec"]["hostname"] = json!("rancher"));
                }
                world.put(LEASES, lease("rancher", 45, 1));
            }),
            &["RL106"],
            3,
            Refused,
        ),
        incident(
            "rl106-one-node-hung",
            Triggers,
            "Two replicas with hostNetwork run on one node, and neither renews: which of them leads cannot be seen.",
            build(|world| {
                for name in REPLICAS {
                    world.edit(&PODS, name, host_network);
                }
                world.edit(&PODS, REPLICAS[1], |pod| pod["spec"]["nodeName"] = json!(NODE_NAMES[0]));
                world.put(LEASES, lease(NODE_NAMES[0], DEV, 41 * MINUTE));
            }),
            &["RL102", "RL106", "RL131"],
            3,
            Refused,
        ),
        incident(
            "rl106-evicted",
            LooksLike,
            "A replica with hostNetwork was evicted; its successor runs on the same node, and the old pod is still listed.",
            build(|world| {
                for name in REPLICAS {
                    world.edit(&PODS, name, host_network);
                }
                world.add(PODS, {
                    let mut evicted = pod(NAMESPACE, GONE, NODE_NAMES[0], 6 * DAY);
                    not_ready(&mut evicted);
                    host_network(&mut evicted);
                    evicted["status"] = json!({
                        "phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory.",
                    });
                    evicted
                });
                world.put(LEASES, lease(NODE_NAMES[0], 45, 1));
            }),
            &[],
            0,
            Nothing,
        ),
        incident(
            "rl110-in-use",
            Triggers,
            "Rancher 2.8.2 locks with a ConfigMap and a Lease.",
            build(|world| {
                world.version("v2.8.2");
                let (kind, map) = config_map(Some(REPLICAS[0]), 1);
                world.add(kind, map);
            }),
            &["RL110"],
            0,
            Nothing,
        ),
        incident(
            "rl110-in-use-holder-gone",
            Triggers,
            "The leader of a Rancher 2.8.2 died under a record of 45 hours: deleting the Lease alone would change nothing.",
            from(World::leader_gone(DEV), |world| {
                world.version("v2.8.2");
                let (kind, map) = config_map(Some(GONE), 41 * MINUTE);
                world.add(kind, map);
            }),
            &["RL101", "RL110", "RL131"],
            3,
            Refused,
        ),
        incident(
            "rl110-in-use-version-unknown",
            Triggers,
            "A build without a version; the ConfigMap was renewed together with the Lease, so both count.",
            from(World::leader_gone(DEV), |world| {
                world.version("head");
                let (kind, map) = config_map(Some(GONE), 41 * MINUTE);
                world.add(kind, map);
            }),
            &["RL101", "RL110", "RL131"],
            3,
            Refused,
        ),
        incident(
            "rl110-left-over",
            Triggers,
            "The leader died; a ConfigMap of the version before still names another one.",
            from(World::leader_gone(DEV), |world| {
                let (kind, map) = config_map(Some("rancher-65b8d7c9f-w2x4z"), 300 * DAY);
                world.add(kind, map);
            }),
            &["RL101", "RL110", "RL131"],
            3,
            Plan,
        ),
        incident(
            "rl110-no-record",
            LooksLike,
            "The leader died; a ConfigMap of that name exists, but holds no record.",
            from(World::leader_gone(DEV), |world| {
                let (kind, map) = config_map(None, 0);
                world.add(kind, map);
            }),
            &["RL101", "RL131"],
            3,
            Plan,
        ),
    ]
}

/// RL107, RL108, RL140: what controllers do.
fn controllers() -> Vec<Incident> {
    let stale = |replicas: i64| {
        build(|world| {
            let namespace = "cattle-fleet-system";
            let host = "fleet-controller-6f7d-w5c2k";
            let holder = format!("{host}_{}", uid("fleet"));
            world.add(LEASES, other_lease(namespace, "fleet-controller-leader-election-shard", &holder, 30, 3 * HOUR));
            world.add(DEPLOYMENTS, other_deployment(namespace, "fleet-controller", replicas));
        })
    };
    vec![
        incident(
            "rl107-slow-etcd",
            Triggers,
            "Two hours ago the leader lost the election because the API server did not answer, and restarted.",
            build(|world| {
                world.edit(&PODS, REPLICAS[1], |pod| restarted(pod, 4, 1, "Error", 2 * HOUR));
                world.previous_log(REPLICAS[1], &[(2 * HOUR + 20, SLOW), (2 * HOUR + 1, SLOW), (2 * HOUR, LOST)]);
            }),
            &["RL107"],
            0,
            Refused,
        ),
        incident(
            "rl107-out-of-memory",
            LooksLike,
            "Two hours ago a replica was killed for its memory, which is no lost election.",
            build(|world| {
                world.edit(&PODS, REPLICAS[1], |pod| restarted(pod, 4, 137, "OOMKilled", 2 * HOUR));
                world.previous_log(
                    REPLICAS[1],
                    &[(2 * HOUR, "2026/11/30 22:00:00 [INFO] Handling backend connection request [c-m-8x2kq4wd]")],
                );
            }),
            &[],
            0,
            Nothing,
        ),
        incident(
            "rl107-months-ago",
            LooksLike,
            "A replica lost the election three days ago: that is no news.",
            build(|world| {
                world.edit(&PODS, REPLICAS[1], |pod| restarted(pod, 1, 1, "Error", 3 * DAY));
                world.previous_log(REPLICAS[1], &[(3 * DAY, LOST)]);
            }),
            &[],
            0,
            Nothing,
        ),
        incident(
            "rl108-start-fails",
            Triggers,
            "The leader renews, but a start-up function of its controllers fails every five seconds.",
            build(|world| {
                world.version("v2.10.3");
                world.disconnect(&ALL_CLUSTERS[..2]);
                world.log(
                    REPLICAS[0],
                    &[
                        (4 * DAY, "I1127 00:00:00.000000 1 leaderelection.go:268] successfully acquired lease kube-system/cattle-controllers"),
                        (12, LEADER_FUNC),
                        (7, LEADER_FUNC),
                        (2, LEADER_FUNC),
                    ],
                );
            }),
            &["RL108", "RL130", "RL131"],
            3,
            Plan,
        ),
        incident(
            "rl108-waits-for-capi",
            Triggers,
            "The leader waits for Cluster API, so that nothing is provisioned; a restart would not help.",
            build(|world| {
                world.disconnect(&ALL_CLUSTERS[..1]);
                world.log(
                    REPLICAS[0],
                    &[
                        (4 * DAY, "2026/11/27 00:00:00 [INFO] wrangler-newContext leader func executed successfully"),
                        (31, "2026/11/30 23:59:29 [INFO] [deferred-capi] Checking CAPI catalog App version…"),
                        (1, "2026/11/30 23:59:59 [INFO] [deferred-capi] Checking CAPI catalog App version…"),
                    ],
                );
            }),
            &["RL108", "RL130"],
            0,
            Refused,
        ),
        incident(
            "rl108-silent",
            Triggers,
            "The leader acquired the Lease 20 minutes ago and has not said since that its controllers started.",
            build(|world| {
                world.edit(&LEASES, "cattle-controllers", |lease| {
                    lease["spec"]["acquireTime"] = json!(micro(20 * MINUTE))
                });
                world.disconnect(&ALL_CLUSTERS[..1]);
                world.log(
                    REPLICAS[0],
                    &[
                        (20 * MINUTE, "I1130 23:40:00.000000 1 leaderelection.go:268] successfully acquired lease kube-system/cattle-controllers"),
                        (19 * MINUTE, "2026/11/30 23:41:00 [INFO] Starting management.cattle.io/v3, Kind=Cluster controller"),
                    ],
                );
            }),
            &["RL108", "RL130"],
            0,
            Refused,
        ),
        incident(
            "rl108-log-too-short",
            LooksLike,
            "The end of the leader's log does not reach back to its start, so that a missing line proves nothing.",
            build(|world| {
                world.disconnect(&ALL_CLUSTERS[..1]);
                world.log(
                    REPLICAS[0],
                    &[(30, "2026/11/30 23:59:30 [INFO] Handling backend connection request [c-m-b7n5tz9h]")],
                );
            }),
            &["RL130"],
            0,
            Refused,
        ),
        incident(
            "rl108-started-at-last",
            LooksLike,
            "A start-up function failed twice, then the leader's controllers started.",
            build(|world| {
                world.version("v2.10.3");
                world.disconnect(&ALL_CLUSTERS[..1]);
                world.log(
                    REPLICAS[0],
                    &[
                        (100, "I1130 23:58:20.000000 1 leaderelection.go:268] successfully acquired lease kube-system/cattle-controllers"),
                        (90, LEADER_FUNC),
                        (85, LEADER_FUNC),
                        (60, "2026/11/30 23:59:00 [INFO] Rancher startup complete"),
                    ],
                );
            }),
            &["RL130"],
            0,
            Refused,
        ),
        incident(
            "rl140-fleet-controller",
            Triggers,
            "Fleet's controller has not renewed its lease for three hours, though its Deployment wants a replica.",
            stale(1),
            &["RL140"],
            0,
            Refused,
        ),
        incident(
            "rl140-scaled-down",
            LooksLike,
            "The lease of Fleet's controller is old because its Deployment is scaled to 0.",
            stale(0),
            &[],
            0,
            Nothing,
        ),
    ]
}

/// RL120.
fn replicas() -> Vec<Incident> {
    vec![
        incident(
            "rl120-crash-loop",
            Triggers,
            "All replicas crash because the API server cannot reach Rancher's imperative API.",
            build(|world| {
                world.put(LEASES, lease(REPLICAS[0], 45, 30 * MINUTE));
                for name in REPLICAS {
                    world.edit(&PODS, name, crash_loop);
                    world.previous_log(
                        name,
                        &[(110, "2026/11/30 23:58:10 [INFO] Rancher version v2.13.2 is starting"), (102, IMPERATIVE)],
                    );
                }
                let (kind, warning) =
                    event(REPLICAS[0], "BackOff", "Back-off restarting failed container rancher in pod", 40);
                world.add(kind, warning);
            }),
            &["RL104", "RL120", "RL131"],
            3,
            Refused,
        ),
        incident(
            "rl120-scaled-down",
            Triggers,
            "Rancher's Deployment is scaled to 0; its leader released the Lease.",
            build(|world| {
                world.put(DEPLOYMENTS, deployment(NAMESPACE, "rancher", 0));
                world.remove(&PODS, |_| true);
                world.put(LEASES, released_lease(HOUR));
            }),
            &["RL103", "RL120", "RL131"],
            3,
            Refused,
        ),
        incident(
            "rl120-one-is-left",
            LooksLike,
            "Two of three replicas crash, the leader is well.",
            build(|world| {
                for name in &REPLICAS[1..] {
                    world.edit(&PODS, name, crash_loop);
                    world.previous_log(name, &[(102, IMPERATIVE)]);
                }
            }),
            &[],
            0,
            Nothing,
        ),
    ]
}

/// RL130 to RL132: the downstream clusters.
fn downstream() -> Vec<Incident> {
    vec![
        incident(
            "rl130-two-of-five",
            Triggers,
            "Two clusters are not connected, the leader is well.",
            build(|world| world.disconnect(&ALL_CLUSTERS[1..3])),
            &["RL130"],
            0,
            Refused,
        ),
        incident(
            "rl130-not-counted",
            LooksLike,
            "One cluster is being made, another one is being deleted: neither has to be connected.",
            build(|world| {
                world.put(MANAGEMENT_CLUSTERS, {
                    let mut made = cluster(CLUSTERS[0].0, CLUSTERS[0].1, false);
                    made["status"] = json!({"conditions": null});
                    made
                });
                world.put(MANAGEMENT_CLUSTERS, {
                    let mut deleted = cluster(CLUSTERS[1].0, CLUSTERS[1].1, false);
                    deleted["metadata"]["deletionTimestamp"] = json!("2026-11-30T23:00:00Z");
                    deleted
                });
            }),
            &[],
            0,
            Nothing,
        ),
        incident(
            "rl131-old-news",
            Triggers,
            "The leader died 41 minutes ago; all clusters still say that they are connected.",
            World::leader_gone(DEV),
            &["RL101", "RL131"],
            3,
            Plan,
        ),
        incident(
            "rl131-no-clusters",
            LooksLike,
            "The leader died, but there is no cluster besides the local one.",
            from(World::leader_gone(DEV), |world| {
                world.remove(&MANAGEMENT_CLUSTERS, |_| true);
                world.add(MANAGEMENT_CLUSTERS, local_cluster());
            }),
            &["RL101"],
            3,
            Plan,
        ),
        incident(
            "rl132-token-unknown",
            Triggers,
            "An agent comes with a token that Rancher does not know.",
            build(|world| {
                world.disconnect(&ALL_CLUSTERS[..1]);
                world.log(
                    REPLICAS[1],
                    &[
                        (600, UNKNOWN_TOKEN),
                        (540, UNKNOWN_TOKEN_AGAIN),
                        (480, DELETED_CLUSTER),
                        (300, NO_AUTHENTICATION),
                    ],
                );
            }),
            &["RL130", "RL132"],
            0,
            Refused,
        ),
        incident(
            "rl132-deleted-clusters",
            Triggers,
            "Only agents of a cluster that was deleted are refused: noise.",
            build(|world| {
                world.disconnect(&ALL_CLUSTERS[..1]);
                world.log(REPLICAS[1], &[(480, DELETED_CLUSTER)]);
            }),
            &["RL130", "RL132"],
            0,
            Refused,
        ),
        incident(
            "rl132-hours-ago",
            LooksLike,
            "The refusals in the log are older than an hour.",
            build(|world| {
                world.disconnect(&ALL_CLUSTERS[..1]);
                world.log(REPLICAS[1], &[(5 * HOUR, UNKNOWN_TOKEN), (4 * HOUR, NO_AUTHENTICATION)]);
            }),
            &["RL130"],
            0,
            Refused,
        ),
    ]
}

/// RX001 to RX005: the connection and the target.
fn target() -> Vec<Incident> {
    vec![
        incident(
            "rx001-clusters-forbidden",
            Triggers,
            "The viewer may not list Rancher's clusters.",
            build(|world| {
                world.forbidden.insert("list clusters");
            }),
            &["RX001"],
            5,
            Refused,
        ),
        incident(
            "rx001-nodes-forbidden",
            Triggers,
            "The leader died, but the viewer may not list the nodes, one of which may still run it.",
            from(World::leader_gone(DEV), |world| {
                world.forbidden.insert("list nodes");
            }),
            &["RL101", "RL131", "RX001"],
            3,
            Refused,
        ),
        incident(
            "rx001-malformed",
            Triggers,
            "A pod and the Lease have another shape than their kind.",
            build(|world| {
                world.edit(&PODS, REPLICAS[2], |pod| pod["status"]["containerStatuses"] = json!("none"));
                world.edit(&LEASES, "cattle-controllers", |lease| lease["spec"]["renewTime"] = json!("yesterday"));
            }),
            &["RX001"],
            5,
            Refused,
        ),
        incident(
            "rx001-optional-forbidden",
            LooksLike,
            "The viewer may not read Rancher's settings nor list all leases, without which there still is a verdict.",
            build(|world| {
                world.forbidden.extend(["get settings", "list leases"]);
            }),
            &[],
            0,
            Nothing,
        ),
        incident(
            "rx002-downstream",
            Triggers,
            "This is a downstream cluster: its agent elects with the same Lease.",
            {
                let mut world = World::empty();
                world.origin.context = Some("shop".to_owned());
                world.origin.other_contexts = vec!["office".to_owned(), "rancher-management".to_owned()];
                world.not_served.extend(["clusters", "settings"]);
                world.add(DEPLOYMENTS, other_deployment(NAMESPACE, "cattle-cluster-agent", 2));
                world.add(PODS, {
                    let mut agent = pod(NAMESPACE, "cattle-cluster-agent-6b7f9-z5q8d", NODE_NAMES[0], DAY);
                    agent["metadata"]["labels"] = json!({"app": "cattle-cluster-agent"});
                    agent
                });
                world.add(LEASES, lease("cattle-cluster-agent-6b7f9-z5q8d", 45, 1));
                world
            },
            &["RX002"],
            2,
            Refused,
        ),
        incident(
            "rx002-agent-beside-rancher",
            LooksLike,
            "The cluster Rancher runs in is itself managed by another Rancher, whose agent is here too.",
            build(|world| {
                world.add(DEPLOYMENTS, other_deployment(NAMESPACE, "cattle-cluster-agent", 2));
            }),
            &[],
            0,
            Nothing,
        ),
        incident(
            "rx003-through-rancher",
            Triggers,
            "The leader died, and the kubeconfig goes through Rancher itself.",
            from(World::leader_gone(DEV), |world| {
                world.origin.server = "https://rancher.example.com/k8s/clusters/local".to_owned();
                world.origin.rancher_proxy = Some("local".to_owned());
            }),
            &["RL101", "RL131", "RX003"],
            3,
            Refused,
        ),
        incident(
            "rx003-name-only",
            LooksLike,
            "The API server is only called like Rancher.",
            build(|world| world.origin.server = "https://rancher.example.com:6443".to_owned()),
            &[],
            0,
            Nothing,
        ),
        incident(
            "rx004-clock-behind",
            Triggers,
            "The clock of this machine is 90 seconds behind the API server's.",
            build(|world| world.origin.clock_skew_seconds = 90),
            &["RX004"],
            0,
            Nothing,
        ),
        incident(
            "rx004-within-tolerance",
            LooksLike,
            "The clocks differ by three seconds.",
            build(|world| world.origin.clock_skew_seconds = -3),
            &[],
            0,
            Nothing,
        ),
        incident(
            "rx005-nothing-here",
            Triggers,
            "A cluster without Rancher.",
            {
                let mut world = World::empty();
                world.origin.other_contexts = vec!["rancher-management".to_owned()];
                world.not_served.extend(["clusters", "settings"]);
                world
            },
            &["RX005"],
            2,
            Refused,
        ),
        incident(
            "rx005-another-namespace",
            LooksLike,
            "Rancher is installed in another namespace, which its own setting names.",
            {
                let mut world = elsewhere();
                world.setting("namespace", "rancher-system");
                world
            },
            &[],
            0,
            Nothing,
        ),
        incident(
            "rx005-in-docker",
            LooksLike,
            "Rancher runs in a container of its own with an API server inside.",
            {
                let mut world = World::empty();
                world.add(LEASES, lease("3f9c1d7be520", 45, 1));
                world.add(MANAGEMENT_CLUSTERS, local_cluster());
                world.setting("server-version", "v2.13.2");
                world
            },
            &[],
            0,
            Nothing,
        ),
    ]
}

/// Rancher in the namespace `rancher-system`.
pub(crate) fn elsewhere() -> World {
    let mut world = World::healthy();
    for (_, object) in &mut world.objects {
        if object["metadata"]["namespace"] == NAMESPACE {
            object["metadata"]["namespace"] = json!("rancher-system");
        }
    }
    world
}

/// The same, asked for by name.
pub(crate) fn elsewhere_by_name() -> World {
    let mut world = elsewhere();
    world.question = Question { rancher_namespace: Some("rancher-system".to_owned()) };
    world
}
