//! One incident per code that triggers it, and look-alikes that must not.

use rancher_common::kinds::{DEPLOYMENTS, PODS};
use rancher_common::rancher::SETTINGS;
use rancher_common::snapshot::{Content, Snapshot};
use serde_json::{Value, json};

use crate::build::*;

/// What `plan` must say of an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    DeleteLease,
    DeletePod,
    NothingToDo,
    Refused,
    Wait,
}

/// An incident.
pub(crate) struct Case {
    /// Name of its directory: the code and what it is.
    pub(crate) name: &'static str,
    /// The codes that must be found, sorted, each as often as it is found.
    pub(crate) codes: &'static [&'static str],
    pub(crate) plan: Expect,
    pub(crate) snapshot: Snapshot,
}

fn case(name: &'static str, codes: &'static [&'static str], plan: Expect, world: World) -> Case {
    Case { name, codes, plan, snapshot: world.snapshot() }
}

fn disconnected(world: &mut World) {
    world.clusters = Some(vec![local(), cluster("c-m-11111", "shop", false), cluster("c-m-22222", "factory", true)]);
}

const B: &str = "rancher-6f9d5c7b8-bbbbb";
const C: &str = "rancher-6f9d5c7b8-ccccc";

fn dev() -> Vec<Value> {
    vec![deployment("rancher", "rancher-2.13.2", 3, &[("CATTLE_DEV_MODE", "true")])]
}

/// All incidents.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn all() -> Vec<Case> {
    use Expect::{DeleteLease, DeletePod, NothingToDo, Refused, Wait};
    let single = |pod: Value| vec![pod];
    let fatal = |before: &str| line(601, before) + &line(600, "[FATAL] leaderelection lost for cattle-controllers");
    vec![
        case("healthy", &[], NothingToDo, World::healthy()),
        // RL101
        case("rl101-holder-gone", &["RL101", "RL130", "RL131"], DeleteLease, World::dead(GONE, 162_000, 2460).edit(|w| {
            disconnected(w);
            w.deployments = dev();
        })),
        case("rl101-tuned-duration", &["RL101", "RL131"], DeleteLease, World::dead(GONE, 900, 1200).pods(vec![pod(B, 2).started(200), pod(C, 3).started(259_000)]).edit(|w| {
            w.deployments = vec![deployment("rancher", "rancher-2.13.2", 3, &[("CATTLE_ELECTION_LEASE_DURATION", "15m"), ("CATTLE_ELECTION_RENEW_DEADLINE", "10m")])];
        })),
        case("rl101-release-of-another-name", &["RL101", "RL131"], DeleteLease, World::dead("manager-rancher-5d7c8f9b64-zzzzz", 162_000, 7200).edit(|w| {
            w.deployments = vec![deployment("manager-rancher", "rancher-2.13.2", 1, &[])];
            w.pods = single(pod("manager-rancher-6f9d5c7b8-aaaaa", 1).change("/metadata/labels", json!({"app": "manager-rancher"})));
        })),
        case("rl101-node-cut-off", &["RL101", "RL131"], Refused, World::dead(GONE, 162_000, 2460).edit(|w| {
            w.nodes = Some(vec![node(1, true), node(2, true), node(3, false)]);
        })),
        case("rl101-all-starting", &["RL101", "RL120", "RL131"], Refused, World::dead(GONE, 162_000, 100).pods(vec![pod(B, 2).started(30).not_ready(), pod(C, 3).started(20).not_ready()])),
        case("rl101-lookalike-holder-is-node", &[], NothingToDo, World::healthy().edit(|w| {
            w.lease = Some(lease("node-1.example.com", 45, ago(1)));
            for pod in &mut w.pods {
                *pod = pod.clone().host_network();
            }
        })),
        case("rl101-lookalike-other-clock", &[], NothingToDo, World::healthy().edit(|w| {
            w.lease = Some(lease(LEADER, 45, ago(1500)));
        }).then(Some(lease(LEADER, 45, ago(1488))))),
        case("rl101-lookalike-taken-meanwhile", &[], NothingToDo, World::healthy().edit(|w| {
            w.lease = Some(lease(GONE, 45, ago(60)));
        }).then(Some(lease(B, 45, ago(1))))),
        // RL102
        case("rl101-lookalike-pod-of-another-release", &["RL102", "RL131"], Refused, World::dead(GONE, 162_000, 2460).edit(|w| {
            w.pods.push(pod(GONE, 1).change("/metadata/labels", json!({"app": "old-rancher"})));
        })),
        case("rl102-hung", &["RL102", "RL131"], DeletePod, World::dead(LEADER, 162_000, 2460)),
        case("rl102-hung-single-replica", &["RL102", "RL131"], DeletePod, World::dead(LEADER, 45, 2460).edit(|w| {
            w.deployments = vec![deployment("rancher", "rancher-2.13.2", 1, &[])];
            w.pods = single(pod(LEADER, 1));
        })),
        case("rl102-hung-unowned-pod", &["RL102", "RL131"], Refused, World::dead(LEADER, 162_000, 2460).edit(|w| {
            w.pods[0] = pod(LEADER, 1).change("/metadata/ownerReferences", json!([]));
        })),
        case("rl102-process-ended", &["RL102", "RL131"], DeleteLease, World::dead(LEADER, 162_000, 2460).edit(|w| {
            w.pods[0] = pod(LEADER, 1).waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container").ended_before(2, 120, 9);
        })),
        case("rl102-node-lost-within-deadline", &["RL102", "RL131"], Refused, World::dead(LEADER, 162_000, 2460).edit(|w| {
            w.pods[0] = pod(LEADER, 1).not_ready().terminating(1500);
            w.nodes = Some(vec![node(1, false), node(2, true), node(3, true)]);
        })),
        case("rl102-node-lost-after-deadline", &["RL102", "RL131"], DeleteLease, World::dead(LEADER, 162_000, 110_000).edit(|w| {
            w.pods[0] = pod(LEADER, 1).not_ready().terminating(109_000);
            w.nodes = Some(vec![node(1, false), node(2, true), node(3, true)]);
        })),
        case("rl102-lookalike-restarted-container", &["RL109"], Wait, World::dead(LEADER, 162_000, 60).edit(|w| {
            w.pods[0] = pod(LEADER, 1).started(20).not_ready().ended_before(137, 25, 1);
        })),
        case("rl102-lookalike-terminating", &["RL109"], Wait, World::dead(LEADER, 162_000, 14).edit(|w| {
            w.pods[0] = pod(LEADER, 1).terminating(-20);
        })),
        case("rl102-lookalike-not-ready-but-renewing", &[], NothingToDo, World::healthy().edit(|w| {
            w.pods[0] = pod(LEADER, 1).not_ready();
        })),
        // RL103
        case("rl103-missing", &["RL103", "RL104", "RL131"], Refused, World::healthy().edit(|w| w.lease = None).still()
            .log(B, false, &line(3, "[ERROR] error retrieving resource lock kube-system/cattle-controllers: leases.coordination.k8s.io \"cattle-controllers\" is forbidden: User \"system:serviceaccount:cattle-system:rancher\" cannot get resource \"leases\" in API group \"coordination.k8s.io\" in the namespace \"kube-system\""))),
        case("rl103-released", &["RL103", "RL104", "RL131"], Refused, World::healthy().edit(|w| w.lease = Some(lease("", 1, ago(300)))).still()),
        case("rl103-lookalike-starting", &["RL109", "RL120"], Refused, World::healthy().edit(|w| {
            w.lease = None;
            w.pods = vec![pod(LEADER, 1).started(20).not_ready()];
            w.clusters = Some(vec![]);
        }).still()),
        case("rl103-lookalike-taken", &[], NothingToDo, World::healthy().edit(|w| w.lease = Some(lease("", 1, ago(13)))).then(Some(lease(B, 45, ago(1))))),
        // RL104
        case("rl104-api-too-slow", &["RL104", "RL131"], Refused, World::dead(GONE, 45, 2460)
            .log(LEADER, false, &line(5, "[ERROR] error retrieving resource lock kube-system/cattle-controllers: Get \"https://192.0.2.1:443/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cattle-controllers?timeout=15m0s\": context deadline exceeded"))),
        case("rl104-unknown-reason", &["RL104", "RL131"], Refused, World::dead(GONE, 45, 2460).log(B, false, &line(9, "[INFO] something nobody has seen before"))),
        case("rl104-no-replica", &["RL104", "RL120", "RL131"], Refused, World::dead(GONE, 162_000, 2460)
            .pods(vec![pod(B, 2).waiting("CrashLoopBackOff", "back-off").ended_before(1, 60, 12)])
            .log(B, true, &line(61, "[FATAL] kube-apiserver did not contact the rancher imperative api in time, last state"))),
        case("rl104-lookalike-young-candidate", &["RL109"], Wait, World::dead(GONE, 45, 2460).pods(vec![pod(B, 2).started(20)])),
        // RL105
        case("rl105-dev-mode", &["RL105"], NothingToDo, World::healthy().edit(|w| {
            w.lease = Some(lease(LEADER, 162_000, ago(1)));
            w.deployments = dev();
        })),
        case("rl105-lookalike-four-minutes", &[], NothingToDo, World::healthy().edit(|w| w.lease = Some(lease(LEADER, 240, ago(1))))),
        // RL106
        case("rl106-one-node", &["RL106"], Refused, World::healthy().edit(|w| {
            w.lease = Some(lease("node-1", 45, ago(1)));
            w.pods = vec![pod(LEADER, 1).host_network(), pod(B, 1).host_network()];
        })),
        case("rl106-hostname", &["RL106"], Refused, World::healthy().edit(|w| {
            w.lease = Some(lease("rancher", 45, ago(1)));
            for pod in &mut w.pods {
                *pod = pod.clone().change("/spec/hostname", json!("rancher"));
            }
        })),
        case("rl106-lookalike-old-pod-ended", &[], NothingToDo, World::healthy().edit(|w| {
            w.lease = Some(lease("node-1", 45, ago(1)));
            w.pods = vec![
                pod(LEADER, 1).host_network(),
                pod(B, 1).host_network().not_ready().change("/status/phase", json!("Failed")).change("/status/reason", json!("Evicted")),
            ];
        })),
        // RL107
        case("rl107-api-too-slow", &["RL107"], Refused, World::healthy().edit(|w| {
            w.pods[1] = pod(B, 2).started(590).ended_before(1, 600, 4);
        }).log(B, true, &fatal("[ERROR] error retrieving resource lock kube-system/cattle-controllers: context deadline exceeded"))),
        case("rl107-unknown-line-before", &["RL107"], Refused, World::healthy().edit(|w| {
            w.pods[1] = pod(B, 2).started(590).ended_before(1, 600, 1);
        }).log(B, true, &fatal("[INFO] nothing special"))),
        case("rl107-lookalike-other-end", &[], NothingToDo, World::healthy().edit(|w| {
            w.pods[1] = pod(B, 2).started(590).ended_before(1, 600, 4);
        }).log(B, true, &line(600, "[FATAL] error initially creating leader election record: leases.coordination.k8s.io \"cattle-controllers\" already exists"))),
        case("rl107-lookalike-out-of-memory", &[], NothingToDo, World::healthy().edit(|w| {
            w.pods[1] = pod(B, 2).started(590).ended_before(137, 600, 1);
        }).log(B, true, &line(601, "[INFO] working"))),
        case("rl107-lookalike-long-ago", &[], NothingToDo, World::healthy().edit(|w| {
            w.pods[1] = pod(B, 2).started(172_000).ended_before(1, 172_800, 4);
        })),
        // RL108
        case("rl108-leader-func-fails", &["RL108", "RL130", "RL131"], DeletePod, World::healthy().edit(|w| {
            disconnected(w);
            w.version = Some("v2.10.4".into());
        }).log(LEADER, false, &(line(20, "[ERROR] failed to call leader func: x509: certificate has expired") + &line(15, "[ERROR] failed to call leader func: x509: certificate has expired") + &line(10, "[ERROR] failed to call leader func: x509: certificate has expired")))),
        case("rl108-deferred-capi", &["RL108", "RL130"], Refused, World::healthy().edit(disconnected)
            .log(LEADER, false, &line(20, "[INFO] [deferred-capi] Checking CAPI catalog App version"))),
        case("rl108-success-line-missing", &["RL108", "RL130"], Refused, World::healthy().edit(disconnected)
            .log(LEADER, false, &(line(3600, "[INFO] Rancher version v2.13.2 is starting") + &line(3590, "I1130 23:00:10.0 1 leaderelection.go:260] successfully acquired lease kube-system/cattle-controllers") + &line(3580, "[INFO] Starting controllers")))),
        case("rl108-lookalike-recovered", &["RL130"], Refused, World::healthy().edit(|w| {
            disconnected(w);
            w.version = Some("v2.10.4".into());
        }).log(LEADER, false, &(line(70, "[ERROR] failed to call leader func: timeout") + &line(65, "[ERROR] failed to call leader func: timeout") + &line(60, "[INFO] Rancher startup complete")))),
        case("rl108-lookalike-log-does-not-reach-back", &["RL130"], Refused, World::healthy().edit(disconnected).log(LEADER, false, &line(60, "[INFO] working"))),
        // RL109
        case("rl109-holder-just-gone", &["RL109"], Wait, World::dead(GONE, 45, 20)),
        case("rl109-just-released", &["RL109"], Wait, World::healthy().edit(|w| w.lease = Some(lease(GONE, 45, ago(13)))).then(Some(lease("", 1, ago(2))))),
        // RL110
        case("rl110-old-version", &["RL101", "RL110", "RL131"], Refused, World::dead(GONE, 162_000, 2460).edit(|w| {
            w.version = Some("v2.7.9".into());
            w.config_map = Some(Some(legacy(GONE, 2460)));
        })),
        case("rl110-left-over", &["RL101", "RL110", "RL131"], DeleteLease, World::dead(GONE, 162_000, 110_000).edit(|w| {
            w.config_map = Some(Some(legacy("rancher-old-pod", 9_000_000)));
        })),
        case("rl110-lookalike-no-config-map", &["RL101", "RL131"], DeleteLease, World::dead(GONE, 162_000, 110_000).edit(|w| w.config_map = Some(None))),
        // RL111
        case("rl111-cluster-agent-leads", &["RL111"], Refused, World::healthy().edit(|w| {
            w.lease = Some(lease("cattle-cluster-agent-7c9d-xxxxx", 45, ago(3)));
        }).then(Some(lease("cattle-cluster-agent-7c9d-xxxxx", 45, ago(1))))),
        // RL120
        case("rl120-image-pull", &["RL104", "RL120", "RL131"], Refused, World::dead(GONE, 162_000, 2460).edit(|w| {
            w.pods = vec![pod(B, 2).waiting("ImagePullBackOff", "Back-off pulling image \"registry.example.com/rancher/rancher:v2.13.2\"")];
            w.deployments.push(plain_deployment(NS, "rancher-webhook", 1).change("/status", json!({})));
            w.events = Some(vec![json!({"metadata": {"name": "e1", "namespace": NS}, "type": "Warning", "reason": "Failed", "message": "401 Unauthorized",
                "lastTimestamp": "2026-11-30T23:58:00Z", "involvedObject": {"kind": "Pod", "name": B}})]);
        })),
        case("rl120-scaled-to-zero", &["RL103", "RL120", "RL131"], Refused, World::healthy().edit(|w| {
            w.lease = Some(lease("", 1, ago(7200)));
            w.deployments = vec![deployment("rancher", "rancher-2.13.2", 0, &[])];
            w.pods = vec![];
        }).still()),
        case("rl120-lookalike-one-of-three", &[], NothingToDo, World::healthy().edit(|w| {
            w.pods[1] = pod(B, 2).waiting("CrashLoopBackOff", "back-off").change("/status/containerStatuses/0/restartCount", json!(0));
            w.pods[2] = pod(C, 3).not_ready();
        })),
        // RL130, RL131
        case("rl130-healthy-leader", &["RL130"], Refused, World::healthy().edit(disconnected)),
        case("rl130-lookalike-not-provisioned", &[], NothingToDo, World::healthy().edit(|w| {
            let mut waiting = cluster("c-m-33333", "new", false);
            waiting["status"]["conditions"][0]["status"] = json!("Unknown");
            let mut leaving = cluster("c-m-44444", "old", false);
            leaving["metadata"]["deletionTimestamp"] = json!("2026-11-30T23:00:00Z");
            w.clusters = Some(vec![local(), waiting, leaving, json!({"metadata": {"name": "c-m-55555"}, "spec": {}, "status": {"conditions": null}})]);
        })),
        case("rl131-lookalike-no-clusters", &["RL101"], DeleteLease, World::dead(GONE, 162_000, 2460).edit(|w| w.clusters = Some(vec![local()]))),
        // RL132
        case("rl132-rejections", &["RL130", "RL132"], Refused, World::healthy().edit(disconnected).log(B, false, &(
            line(50, "[ERROR] Failed to handle tunnel request from remote address 192.0.2.20:41000 (X-Forwarded-For: 198.51.100.9): response 401: failed authentication")
            + &line(45, "[ERROR] Failed to handle tunnel request from remote address 192.0.2.20:41002 (X-Forwarded-For: 198.51.100.9): response 401: failed authentication")
            + &line(40, "[ERROR] Failed to handle tunnel request from remote address 192.0.2.21:5000: response 400: cluster not found")
            + &line(30, "[ERROR] Failed to handle tunnel request from remote address 192.0.2.22:5000: response 400: clusters.management.cattle.io \"c-m-99999\" not found")
        ))),
        case("rl132-lookalike-good-tunnels", &["RL130"], Refused, World::healthy().edit(disconnected).log(B, false, &(
            line(50, "[INFO] Handling backend connection request [c-m-22222]")
            + &line(7200, "[ERROR] Failed to handle tunnel request from remote address 192.0.2.20:41000: response 401: failed authentication")
        ))),
        // RL140
        case("rl140-capi-stale", &["RL140"], Refused, World::healthy().edit(|w| {
            let stale = other_lease("cattle-capi-system", "controller-leader-election-capi", "capi-controller-manager-6d-xxxxx_0b8c1f0e-0000-4000-8000-000000000002", 15, 4000);
            let fine = other_lease(NS, "rancher-webhook-leader", "0b8c1f0e-0000-4000-8000-000000000003", 15, 5);
            w.other_leases = Some((vec![stale.clone(), fine.clone()], Some(vec![fine, stale])));
            w.extra = vec![
                reading(list_want(&DEPLOYMENTS, Some("cattle-capi-system")), Content::Objects(vec![plain_deployment("cattle-capi-system", "capi-controller-manager", 1)])),
                reading(list_want(&PODS, Some("cattle-capi-system")), Content::Objects(vec![])),
            ];
            w.lease = Some(lease(LEADER, 45, ago(13)));
        })),
        case("rl140-lookalike-not-installed-any-more", &[], NothingToDo, World::healthy().edit(|w| {
            let stale = other_lease("cattle-provisioning-capi-system", "controller-leader-election-capi", "capi-controller-manager-6d-xxxxx_0b8c1f0e", 15, 9_000_000);
            w.other_leases = Some((vec![stale.clone()], Some(vec![stale])));
            w.extra = vec![
                reading(list_want(&DEPLOYMENTS, Some("cattle-provisioning-capi-system")), Content::Objects(vec![])),
                reading(list_want(&PODS, Some("cattle-provisioning-capi-system")), Content::Objects(vec![])),
            ];
            w.lease = Some(lease(LEADER, 45, ago(13)));
        })),
        // RX
        case("rx001-pods-forbidden", &["RX001"], Refused, World::healthy().edit(|w| w.forbidden = vec![list_want(&PODS, Some(NS))])),
        case("rx001-lookalike-optional-forbidden", &[], NothingToDo, World::healthy().edit(|w| w.forbidden = vec![get_want(&SETTINGS, None, "server-version")])),
        case("rx002-downstream", &["RX002"], Refused, World::healthy().edit(|w| {
            w.lease = Some(lease("cattle-cluster-agent-7c9d-xxxxx", 45, ago(1)));
            w.deployments = vec![plain_deployment(NS, "cattle-cluster-agent", 2)];
            w.pods = vec![];
            w.version = None;
            w.origin.context = Some("shop".into());
            w.origin.other_contexts = vec!["factory".into(), "rancher-mgmt".into()];
            w.extra = vec![reading(get_want(&SETTINGS, None, "namespace"), Content::NotServed)];
            w.clusters = None;
        })),
        case("rx002-lookalike-managed-management-cluster", &[], NothingToDo, World::healthy().edit(|w| {
            w.deployments.push(plain_deployment(NS, "cattle-cluster-agent", 2));
        })),
        case("rx003-through-proxy", &["RL101", "RL131", "RX003"], Refused, World::dead(GONE, 162_000, 2460).edit(|w| {
            w.origin.rancher_proxy = Some("local".into());
            w.origin.server = "https://rancher.example.com/k8s/clusters/local".into();
        })),
        case("rx004-clock", &["RX004"], NothingToDo, World::healthy().edit(|w| w.origin.clock_skew_seconds = -90)),
        case("rx004-lookalike-three-seconds", &[], NothingToDo, World::healthy().edit(|w| w.origin.clock_skew_seconds = 3)),
        case("rx005-no-rancher", &["RX005"], Refused, World::healthy().edit(|w| {
            w.lease = None;
            w.deployments = vec![];
            w.pods = vec![];
            w.clusters = None;
            w.version = None;
            w.extra = vec![reading(get_want(&SETTINGS, None, "namespace"), Content::NotServed)];
        })),
        case("rx005-lookalike-another-namespace", &[], NothingToDo, World::healthy().edit(|w| {
            let elsewhere = |value: &Value| {
                let mut value = value.clone();
                value["metadata"]["namespace"] = json!("rancher-prod");
                value
            };
            w.extra = vec![
                reading(get_want(&SETTINGS, None, "namespace"), Content::Objects(vec![json!({"metadata": {"name": "namespace"}, "value": "rancher-prod"})])),
                reading(list_want(&DEPLOYMENTS, Some("rancher-prod")), Content::Objects(w.deployments.iter().map(elsewhere).collect())),
                reading(list_want(&PODS, Some("rancher-prod")), Content::Objects(w.pods.iter().map(elsewhere).collect())),
            ];
            w.deployments = vec![];
            w.pods = vec![];
        })),
        case("rx005-lookalike-docker", &[], NothingToDo, World::healthy().edit(|w| {
            w.lease = Some(lease("3f2a9c0d1e4b", 45, ago(1)));
            w.deployments = vec![];
            w.pods = vec![];
            w.extra = vec![reading(get_want(&SETTINGS, None, "namespace"), Content::Absent)];
        })),
    ]
}

/// The ConfigMap of an old lock.
fn legacy(holder: &str, seconds: i64) -> Value {
    let record = json!({"holderIdentity": holder, "leaseDurationSeconds": 45, "renewTime": ago(seconds).to_string()});
    json!({"metadata": {"name": "cattle-controllers", "namespace": "kube-system", "uid": "cm-1",
        "annotations": {"control-plane.alpha.kubernetes.io/leader": record.to_string()}}})
}
