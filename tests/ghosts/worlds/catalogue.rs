//! The incidents: for each code at least one that triggers it and one that looks like it and must not.

use std::sync::LazyLock;

use rancher_common::doctor::Prescription;
use rancher_common::kinds::{DEPLOYMENTS, LEASES, NAMESPACES, NODES, SECRETS, SERVICE_ACCOUNTS};
use rancher_common::plan::Operation;
use rancher_common::rancher::{
    CAPI_CLUSTERS, CUSTOM_MACHINES, FEATURES, MACHINES, MANAGEMENT_CLUSTERS, MANAGEMENT_NODES, PROVISIONING_CLUSTERS,
    RKE_BOOTSTRAPS, RKE_CONTROL_PLANES,
};
use rancher_common::resource::ResourceType;
use rancher_common::snapshot::Place;
use rancher_testkit::memory::uid;
use serde_json::{Value, json};

use crate::world::{
    Agent, CHECK_IN, CLUSTER, Capi, DAY, GHOST, HOSTS, HOUR, Host, ID, MINUTE, PAUSED, Roles, Step, VSPHERE_MACHINES,
    WORKSPACE, World, ago, host, node_deleted, set_condition,
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
    /// A plan of these actions: verb and kind.
    Plan(&'static [&'static str]),
    /// All is well.
    Nothing,
    /// A problem that is not repaired, or not from here, for a reason with these words.
    Refused(&'static str),
}

impl Treatment {
    /// How a prescription differs from this.
    pub(crate) fn differs(self, prescription: &Prescription) -> Option<String> {
        let same = match (self, prescription) {
            (Self::Plan(expected), Prescription::Plan(plan)) => {
                let actions: Vec<String> = plan
                    .actions
                    .iter()
                    .map(|action| {
                        let verb = match action.operation {
                            Operation::Delete { .. } => "delete",
                            Operation::Patch { .. } => "patch",
                            Operation::Create { .. } => "create",
                        };
                        format!("{verb} {}", action.object.kind)
                    })
                    .collect();
                actions == expected
            }
            (Self::Nothing, Prescription::NothingToDo(_)) => true,
            (Self::Refused(words), Prescription::Refused { why, .. }) => why.contains(words),
            _ => false,
        };
        (!same).then(|| format!("{prescription:?}\n  expected {self:?}"))
    }
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
    /// All codes that are reported, sorted, each once.
    pub codes: &'static [&'static str],
    /// Exit code of `check`.
    pub exit_code: u8,
    /// What `fix` would do.
    pub treatment: Treatment,
    /// The name under which it is recorded in `tests/incidents`, if it is.
    pub recorded: bool,
}

impl Incident {
    /// The code that it is about.
    pub(crate) fn code(&self) -> String {
        self.name.split('-').next().unwrap_or_default().to_uppercase()
    }

    fn recorded(mut self) -> Self {
        self.recorded = true;
        self
    }
}

use Role::{LooksLike, Triggers};
use Treatment::{Nothing, Plan, Refused};

const DELETE: Treatment = Plan(&["delete Machine"]);
const PATCH: Treatment = Plan(&["patch Machine"]);
const TARGET: &str = "prod/custom-2d74d4c9a104";
/// The usual hosts of the machine that is in trouble.
pub(crate) const GHOST_SERVER: Host = host(GHOST, "server-0.example.com", Roles::Server);
pub(crate) const GHOST_WORKER: Host = host(GHOST, "worker-0.example.com", Roles::Worker);
pub(crate) const POOL_WORKER: Host = Host {
    namespace: WORKSPACE,
    cluster: CLUSTER,
    machine: "prod-pool1-7d9c5-x2v9p",
    hostname: "prod-pool1-7d9c5-x2v9p",
    roles: Roles::Worker,
    pool: Some("pool1"),
};
const POOL_TARGET: &str = "prod/prod-pool1-7d9c5-x2v9p";
const PLANNER: &str = "configuring etcd node(s) custom-898d97f03763: waiting for plan to be applied";

/// A world that is changed.
pub(crate) fn from(mut world: World, change: impl FnOnce(&mut World)) -> World {
    change(&mut world);
    world
}

fn build(capi: Capi, change: impl FnOnce(&mut World)) -> World {
    from(World::healthy(capi), change)
}

/// The healthy world, asked about its machine in trouble.
pub(crate) fn asked(capi: Capi, change: impl FnOnce(&mut World)) -> World {
    build(capi, |world| {
        world.ask(TARGET);
        change(world);
    })
}

/// A machine of this host was registered three days ago and its agent has never written a word.
pub(crate) fn never_joined(capi: Capi, host: &Host) -> World {
    asked(capi, |world| world.register(host, false, Agent::Never, 3 * DAY))
}

/// A machine of this host had joined, and its Node is gone.
pub(crate) fn vanished(capi: Capi, host: &Host) -> World {
    asked(capi, |world| {
        world.join(host);
        world.lose_node(host.hostname);
        world.machine(host.machine, |machine| node_deleted(capi, machine, host.hostname));
    })
}

/// A machine of this host is being deleted for two hours, at this step; its Node is there but not Ready.
pub(crate) fn stuck(capi: Capi, host: &Host, step: Step, message: &str) -> World {
    asked(capi, |world| {
        world.join(host);
        world.put_at(&Place::Downstream, NODES, host.node(false));
        world.delete_machine(host.machine, 2 * HOUR, step, message);
    })
}

/// The host of worker-1 was installed anew under its name: the old machine is the ghost.
pub(crate) fn claimed_twice(capi: Capi, roles: Roles) -> World {
    let (index, live) = HOSTS.iter().enumerate().find(|(_, host)| host.roles == roles).expect("a host");
    assert!(index < HOSTS.len());
    let old = Host { machine: GHOST, ..*live };
    asked(capi, |world| world.register(&old, true, Agent::InSync, 90 * DAY))
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
    Incident { name, role, story, world, codes, exit_code, treatment, recorded: false }
}

/// All of them, made once.
pub(crate) fn all() -> &'static [Incident] {
    static ALL: LazyLock<Vec<Incident>> = LazyLock::new(make);
    &ALL
}

fn make() -> Vec<Incident> {
    let mut all = Vec::new();
    for part in [
        joining,
        joining_refused,
        vanishing,
        stuck_deletions,
        more_deletions,
        reused,
        leftovers,
        clusters,
        plans,
        shared,
    ] {
        all.extend(part());
    }
    all
}

fn is_init_node(secret: &mut Value) {
    secret["metadata"]["labels"]["rke.cattle.io/init-node"] = json!("true");
}

fn cut_role(labels: &mut Value, role: &str) {
    labels.as_object_mut().expect("labels").remove(&format!("rke.cattle.io/{role}-role"));
}

/// RG101 and RG210.
fn joining() -> Vec<Incident> {
    let seed = |capi| {
        from(never_joined(capi, &GHOST_SERVER), |world| {
            world.planner(PLANNER);
            world.edit(&RKE_CONTROL_PLANES, CLUSTER, |plane| {
                plane["spec"]["rotateCertificates"] = json!({"generation": 2});
                plane["status"]["certificateRotationGeneration"] = json!(1);
            });
        })
    };
    vec![
        incident(
            "rg101-rotation-waits",
            Triggers,
            "A host was registered again under another id; its old machine never answers, and the certificate rotation waits.",
            seed(Capi::New),
            &["RG101", "RG210"],
            3,
            DELETE,
        )
        .recorded(),
        incident(
            "rg210-no-name",
            Triggers,
            "The first host of a cluster never came; the planner names no machine, only what it waits for.",
            from(never_joined(Capi::New, &GHOST_SERVER), |world| {
                world.plan_secret(GHOST, is_init_node);
                world.planner("waiting for etcd to be available and join url to be available on bootstrap node");
            }),
            &["RG101", "RG210"],
            3,
            DELETE,
        ),
        incident(
            "rg101-rotation-waits-v1beta1",
            Triggers,
            "The same under Rancher 2.12, whose Cluster API serves v1beta1 only.",
            seed(Capi::Old),
            &["RG101", "RG210"],
            3,
            DELETE,
        )
        .recorded(),
        incident(
            "rg101-in-the-fleet",
            Triggers,
            "The same, seen without asking for it: fix wants a name.",
            from(seed(Capi::New), |world| world.question.target = None),
            &["RG101", "RG210"],
            3,
            Refused("name it as CLUSTER/MACHINE"),
        ),
        incident(
            "rg101-worker",
            Triggers,
            "A worker that never came, in a cluster that is not connected: its agent's silence stands in Rancher.",
            from(never_joined(Capi::New, &GHOST_WORKER), World::disconnect),
            &["RG101"],
            3,
            DELETE,
        ),
        incident(
            "rg101-no-plan-secret",
            Triggers,
            "The plan Secret of a machine is gone, so that nobody can answer.",
            from(never_joined(Capi::New, &GHOST_WORKER), |world| {
                world.remove(&SECRETS, |secret| secret["metadata"]["name"] == format!("{GHOST}-machine-plan"));
            }),
            &["RG101"],
            3,
            DELETE,
        ),
        incident(
            "rg101-pool",
            Triggers,
            "A node driver could not make the VM of a pool's machine.",
            build(Capi::New, |world| {
                world.ask(POOL_TARGET);
                world.register(&POOL_WORKER, false, Agent::Never, 3 * HOUR);
                world.edit(&VSPHERE_MACHINES, POOL_WORKER.machine, |infra| {
                    infra["spec"].as_object_mut().expect("spec").remove("providerID");
                    infra["status"]["failureReason"] = json!("CreateError");
                    infra["status"]["failureMessage"] = json!("failed creating server");
                });
            }),
            &["RG101"],
            3,
            DELETE,
        ),
        incident(
            "rg101-local-k3s",
            Triggers,
            "A ghost in the cluster that Rancher itself runs in.",
            build(Capi::New, |world| {
                let of_local = |host: &Host| Host { namespace: "fleet-local", cluster: "local", ..*host };
                world.ask("local/custom-2d74d4c9a104");
                for host in &HOSTS[..3] {
                    world.join(&of_local(&Host {
                        machine: ["custom-aaaaaaaaaaaa", "custom-bbbbbbbbbbbb", "custom-cccccccccccc"]
                            [usize::from(host.hostname.as_bytes()[7] - b'1')],
                        ..*host
                    }));
                }
                world.edit(&RKE_CONTROL_PLANES, "local", |plane| {
                    plane["spec"]["kubernetesVersion"] = json!("v1.33.5+k3s1");
                });
                world.register(&of_local(&GHOST_SERVER), false, Agent::Never, 3 * DAY);
            }),
            &["RG101"],
            3,
            DELETE,
        ),
        incident(
            "rg101-other-workspace",
            Triggers,
            "Two clusters of one name in two workspaces; -n says which.",
            build(Capi::New, |world| {
                world.cluster("fleet-team", CLUSTER, "c-m-b7n5tz9h");
                for host in [&HOSTS[0], &HOSTS[3], &GHOST_WORKER] {
                    let there = Host { namespace: "fleet-team", ..*host };
                    let joined = host.machine != GHOST;
                    world.register(&there, joined, if joined { Agent::InSync } else { Agent::Never }, 3 * DAY);
                }
                world.question.namespace = Some("fleet-team".to_owned());
                world.ask(TARGET);
            }),
            &["RG101"],
            3,
            DELETE,
        ),
        incident(
            "rg101-two-minutes-old",
            LooksLike,
            "A machine that was registered two minutes ago.",
            asked(Capi::New, |world| world.register(&GHOST_SERVER, false, Agent::Never, 2 * MINUTE)),
            &[],
            0,
            Refused("may still join"),
        ),
        incident(
            "rg101-not-planned",
            LooksLike,
            "Mass registration: the plan Secret has no data yet, for it is not this machine's turn.",
            asked(Capi::New, |world| world.register(&GHOST_WORKER, false, Agent::NotPlanned, 2 * HOUR)),
            &[],
            0,
            Refused("may still join"),
        ),
        incident(
            "rg101-plan-without-instructions",
            LooksLike,
            "A plan Secret whose plan has no instructions: an agent that was told nothing has nothing to answer.",
            asked(Capi::New, |world| world.register(&GHOST_WORKER, false, Agent::NothingToDo, 2 * HOUR)),
            &[],
            0,
            Refused("may still join"),
        ),
        incident(
            "rg101-agent-answers",
            LooksLike,
            "The agent has applied its plan; only the Node is not there yet.",
            asked(Capi::New, |world| world.register(&GHOST_WORKER, false, Agent::InSync, 2 * HOUR)),
            &[],
            0,
            Refused("may still join"),
        ),
        incident(
            "rg101-provider-id",
            LooksLike,
            "A machine without nodeRef whose infra machine has a provider id: its Node may be there.",
            from(never_joined(Capi::New, &GHOST_WORKER), |world| {
                world.edit(&CUSTOM_MACHINES, GHOST, |infra| {
                    infra["spec"]["providerID"] = json!("rke2://worker-0.example.com");
                });
                world.no_downstream();
            }),
            &["RG209"],
            5,
            Refused("is no ghost"),
        ),
        incident(
            "rg101-provider-id-of-a-live-node",
            LooksLike,
            "A machine without nodeRef that has the provider id of another one's Node: its deletion would take that Node along.",
            from(never_joined(Capi::New, &GHOST_WORKER), |world| {
                world.machine(GHOST, |machine| machine["spec"]["providerID"] = json!("rke2://worker-1.example.com"));
            }),
            &["RG209"],
            5,
            Refused("is no ghost"),
        ),
        incident(
            "rg101-node-carries-its-uid",
            LooksLike,
            "No nodeRef and no answer, but a Node carries the machine's UID.",
            from(never_joined(Capi::New, &GHOST_WORKER), |world| {
                world.put_at(&Place::Downstream, NODES, GHOST_WORKER.node(true));
            }),
            &["RG209"],
            5,
            Refused("is no ghost"),
        ),
        incident(
            "rg210-named-by-the-planner",
            Triggers,
            "The planner names the ghost itself.",
            from(never_joined(Capi::New, &GHOST_SERVER), |world| {
                world.planner(&format!("configuring bootstrap node(s) {GHOST}: {CHECK_IN}"));
            }),
            &["RG101", "RG210"],
            3,
            DELETE,
        )
        .recorded(),
        incident(
            "rg210-only-reported",
            LooksLike,
            "The planner only reports a machine that is not ready: nothing waits for it.",
            from(never_joined(Capi::New, &GHOST_WORKER), |world| {
                world.planner(&format!("non-ready worker machine(s) {GHOST}"));
            }),
            &["RG101"],
            3,
            DELETE,
        ),
        incident(
            "rg210-waits-for-a-good-machine",
            LooksLike,
            "The planner configures a machine that is well: that is its work.",
            build(Capi::New, |world| world.planner("configuring worker node(s) custom-3524fa7f0d71: waiting for plan to be applied")),
            &[],
            0,
            Refused("name it as CLUSTER/MACHINE"),
        ),
    ]
}

/// A ghost that `fix` leaves alone.
fn joining_refused() -> Vec<Incident> {
    let refused = |name, story, codes, exit, words, change: &dyn Fn(&mut World)| {
        incident(
            name,
            Triggers,
            story,
            from(never_joined(Capi::New, &GHOST_SERVER), change),
            codes,
            exit,
            Refused(words),
        )
    };
    vec![
        incident(
            "rg101-last-worker",
            Triggers,
            "The ghost is the last worker: without any Rancher drops its etcd safeguards.",
            from(never_joined(Capi::New, &GHOST_WORKER), |world| {
                for host in &HOSTS[3..] {
                    for kind in [MACHINES, RKE_BOOTSTRAPS, CUSTOM_MACHINES] {
                        world.remove(&kind, |object| object["metadata"]["name"] == host.machine);
                    }
                    world.lose_node(host.hostname);
                    world.remove(&SECRETS, |s| s["metadata"]["name"] == format!("{}-machine-plan", host.machine));
                }
            }),
            &["RG101"],
            3,
            Refused("last worker machine"),
        ),
        incident(
            "rg101-init-node",
            Triggers,
            "The ghost was elected init node before it ever ran: the planner elects another one.",
            from(never_joined(Capi::New, &GHOST_SERVER), |world| world.plan_secret(GHOST, is_init_node)),
            &["RG101"],
            3,
            DELETE,
        ),
        refused(
            "rg101-init-node-that-was-named",
            "The RKEControlPlane names the ghost as init node: without it the planner finds none.",
            &["RG101"],
            3,
            "is the init node that RKEControlPlane",
            &|world| {
                world.plan_secret(GHOST, is_init_node);
                world.edit(&RKE_CONTROL_PLANES, CLUSTER, |plane| {
                    plane["metadata"]["labels"]["rke.cattle.io/init-node-machine-id"] = json!(GHOST_SERVER.cattle_id());
                });
            },
        ),
        refused("rg101-no-roles", "The ghost has no role labels.", &["RG101"], 3, "no role labels", &|world| {
            world.machine(GHOST, |machine| {
                for role in ["etcd", "control-plane"] {
                    cut_role(&mut machine["metadata"]["labels"], role);
                }
            });
        }),
        refused("rg101-cluster-paused", "Cluster API is paused.", &["RG101", "RG206"], 3, "is paused", &|world| {
            world.pause_cluster();
        }),
        refused("rg101-machine-paused", "The ghost is paused.", &["RG101", "RG206"], 3, "is paused", &|world| {
            world.machine(GHOST, |machine| machine["metadata"]["annotations"][PAUSED] = json!("true"));
        }),
        refused("rg101-plane-paused", "The control plane is paused.", &["RG101", "RG206"], 3, "is paused", &|world| {
            world.edit(&RKE_CONTROL_PLANES, CLUSTER, |plane| {
                plane["metadata"]["annotations"] = json!({PAUSED: "true"});
            });
        }),
        refused("rg101-restore", "An etcd restore is under way.", &["RG101", "RG206"], 3, "restore", &|world| {
            world.edit(&RKE_CONTROL_PLANES, CLUSTER, |plane| {
                plane["status"]["etcdSnapshotRestorePhase"] = json!("Restore");
            });
        }),
        refused("rg101-no-leader", "Rancher's leader is dead.", &["RG101"], 3, "no working Rancher leader", &|world| {
            world.renewed(40 * MINUTE);
        }),
        refused("rg101-no-lease", "Nobody has led yet.", &["RG101"], 3, "no working Rancher leader", &|world| {
            world.remove(&LEASES, |_| true);
        }),
        refused("rg101-lease-forbidden", "The Lease cannot be read.", &["RG101"], 3, "was not read", &|world| {
            world.forbidden.insert("get leases");
        }),
        refused(
            "rg101-capi-unseen",
            "Cluster API's controller cannot be seen.",
            &["RG101"],
            3,
            "was not read",
            &|world| {
                world.forbidden.insert("list deployments");
            },
        ),
        refused("rg101-plane-unseen", "The control plane cannot be read.", &["RG101"], 3, "was not read", &|world| {
            world.forbidden.insert("get rkecontrolplanes");
        }),
        refused(
            "rg101-capi-cluster-unseen",
            "Whether it is paused cannot be read.",
            &["RG101"],
            3,
            "was not read",
            &|world| {
                world.forbidden.insert("get clusters.cluster.x-k8s.io");
            },
        ),
        refused(
            "rg101-no-uid",
            "There is no place for a backup.",
            &["RG101"],
            3,
            "kube-system was not read",
            &|world| {
                world.forbidden.insert("get namespaces");
            },
        ),
    ]
}

/// RG102 and RG209.
fn vanishing() -> Vec<Incident> {
    let probes = |secret: &mut Value, healthy: bool| {
        use base64::Engine as _;
        let text = json!({"etcd": {"healthy": healthy, "failureCount": 4}, "kubelet": {"healthy": true}}).to_string();
        secret["data"]["probe-statuses"] = json!(base64::prelude::BASE64_STANDARD.encode(text));
    };
    vec![
        incident(
            "rg102-worker",
            Triggers,
            "Somebody deleted the Node of a worker; the Machine still refers to it.",
            vanished(Capi::New, &GHOST_WORKER),
            &["RG102"],
            3,
            DELETE,
        )
        .recorded(),
        incident(
            "rg102-worker-v1beta1",
            Triggers,
            "The same under v1beta1.",
            vanished(Capi::Old, &GHOST_WORKER),
            &["RG102"],
            3,
            DELETE,
        ),
        incident(
            "rg102-through-rancher",
            Triggers,
            "The same, seen through Rancher's own proxy.",
            from(vanished(Capi::New, &GHOST_WORKER), World::through_rancher),
            &["RG102"],
            3,
            DELETE,
        ),
        incident(
            "rg102-pool",
            Triggers,
            "The Node of a pool's machine is gone.",
            from(vanished(Capi::New, &POOL_WORKER), |world| world.ask(POOL_TARGET)),
            &["RG102"],
            3,
            DELETE,
        ),
        incident(
            "rg102-etcd",
            Triggers,
            "A server's Node is gone; the three others are healthy and have quorum without it.",
            vanished(Capi::New, &GHOST_SERVER),
            &["RG102"],
            3,
            DELETE,
        ),
        incident(
            "rg102-etcd-of-two",
            Triggers,
            "A server's Node is gone and only one other is left: both members are needed.",
            from(vanished(Capi::New, &GHOST_SERVER), |world| {
                for host in &HOSTS[1..3] {
                    for kind in [MACHINES, RKE_BOOTSTRAPS, CUSTOM_MACHINES] {
                        world.remove(&kind, |object| object["metadata"]["name"] == host.machine);
                    }
                    world.remove(&SECRETS, |s| s["metadata"]["name"] == format!("{}-machine-plan", host.machine));
                    world.lose_node(host.hostname);
                }
            }),
            &["RG102"],
            3,
            Refused("2 members"),
        ),
        incident(
            "rg102-etcd-unhealthy",
            Triggers,
            "A server's Node is gone and two others are not healthy.",
            from(vanished(Capi::New, &GHOST_SERVER), |world| {
                world.plan_secret(HOSTS[0].machine, |secret| probes(secret, false));
                world.put_at(&Place::Downstream, NODES, HOSTS[1].node(false));
            }),
            &["RG102"],
            3,
            Refused("are needed"),
        ),
        incident(
            "rg102-etcd-beside-a-dying-member",
            Triggers,
            "A server's Node is gone while two of the others are being removed: their members still count.",
            from(vanished(Capi::New, &GHOST_SERVER), |world| {
                let fifth = host("custom-5a5a5a5a5a5a", "server-4.example.com", Roles::Server);
                world.join(&fifth);
                for host in [&HOSTS[0], &fifth] {
                    world.delete_machine(host.machine, 5 * MINUTE, Step::PreTerminate, "Waiting for hooks");
                    world.put_at(&Place::Downstream, NODES, host.node(false));
                }
            }),
            &["RG102"],
            3,
            Refused("5 members"),
        ),
        incident(
            "rg102-init-node",
            Triggers,
            "The Node of the init node is gone: once it is being deleted the planner elects another one.",
            from(vanished(Capi::New, &GHOST_SERVER), |world| world.plan_secret(GHOST, is_init_node)),
            &["RG102"],
            3,
            DELETE,
        ),
        incident(
            "rg102-etcd-beside-a-healthy-one-that-goes",
            Triggers,
            "A server's Node is gone, and of the three healthy ones two are being removed: what stays is no quorum.",
            from(vanished(Capi::New, &GHOST_SERVER), |world| {
                for host in &HOSTS[..2] {
                    world.delete_machine(host.machine, 5 * MINUTE, Step::PreTerminate, "Waiting for hooks");
                }
            }),
            &["RG102"],
            3,
            Refused("proven healthy"),
        ),
        incident(
            "rg102-renamed",
            LooksLike,
            "The host was given another name: a Node of that name carries the machine's UID.",
            from(vanished(Capi::New, &GHOST_WORKER), |world| {
                let renamed = Host { hostname: "worker-9.example.com", ..GHOST_WORKER };
                world.put_at(&Place::Downstream, NODES, renamed.node(true));
            }),
            &[],
            0,
            Nothing,
        ),
        incident(
            "rg102-name-in-use",
            Triggers,
            "The host is being installed anew under its name: its new machine has no Node yet.",
            from(vanished(Capi::New, &GHOST_WORKER), |world| {
                let again = Host { machine: "custom-6b6b6b6b6b6b", ..GHOST_WORKER };
                world.register(&again, false, Agent::InSync, 10 * MINUTE);
            }),
            &["RG102"],
            3,
            Refused("uses the name of Node"),
        ),
        incident(
            "rg102-sibling-joined",
            Triggers,
            "A worker is still joined to the server whose Node is gone; its agent follows, and is joined elsewhere first.",
            from(vanished(Capi::New, &GHOST_SERVER), join_worker_to_ghost),
            &["RG102"],
            3,
            DELETE,
        ),
        incident(
            "rg102-sibling-joined-and-silent",
            Triggers,
            "The same; the agent of the worker does not follow.",
            from(vanished(Capi::New, &GHOST_SERVER), |world| {
                world.put(SECRETS, HOSTS[3].secret(Agent::Silent, 2 * HOUR));
                join_worker_to_ghost(world);
            }),
            &["RG102"],
            3,
            Refused("joined to"),
        ),
        incident(
            "rg102-without-join-url",
            Triggers,
            "The plan Secret of the lost server has no join-url: the init node counts as joined to it.",
            from(vanished(Capi::New, &GHOST_SERVER), |world| {
                for host in [HOSTS[0].machine, GHOST] {
                    world.plan_secret(host, |secret| {
                        let annotations = secret["metadata"]["annotations"].as_object_mut().expect("annotations");
                        annotations.remove("rke.cattle.io/join-url");
                        annotations.remove("rke.cattle.io/joined-to");
                    });
                }
            }),
            &["RG102"],
            3,
            Refused("has no join-url"),
        ),
        incident(
            "rg205-just-deleted",
            LooksLike,
            "The deletion has just begun: the planner joins the worker elsewhere.",
            from(stuck(Capi::New, &GHOST_SERVER, Step::PreTerminate, "Waiting"), |world| {
                join_worker_to_ghost(world);
                world.machine(GHOST, |machine| machine["metadata"]["deletionTimestamp"] = json!(ago(MINUTE)));
            }),
            &[],
            0,
            Refused("not stood still for long enough"),
        ),
        incident(
            "rg205-leftover-joined",
            Triggers,
            "What is still joined to it is the plan Secret of a machine that is gone.",
            from(stuck(Capi::New, &GHOST_SERVER, Step::PreTerminate, "Waiting"), |world| {
                join_worker_to_ghost(world);
                for kind in [MACHINES, RKE_BOOTSTRAPS, CUSTOM_MACHINES] {
                    world.remove(&kind, |object| object["metadata"]["name"] == HOSTS[3].machine);
                }
                world.lose_node(HOSTS[3].hostname);
            }),
            &["RG103", "RG205"],
            3,
            Refused("safeguard"),
        ),
        incident(
            "rg102-plan-secret-unread",
            Triggers,
            "Whether it is the init node cannot be read.",
            from(vanished(Capi::New, &GHOST_SERVER), |world| {
                world.forbidden.insert("list secrets");
                world.forbidden.insert("get secrets");
            }),
            &["RG102", "RX001"],
            3,
            Refused("not read"),
        ),
        incident(
            "rg102-hearsay",
            Triggers,
            "Cluster API says that the Node is gone; nobody has looked.",
            from(vanished(Capi::New, &GHOST_WORKER), World::no_downstream),
            &["RG102"],
            3,
            Refused("not seen in the downstream cluster"),
        ),
        incident(
            "rg102-context-of-another-cluster",
            Triggers,
            "Cluster API says that the Node is gone; the downstream context given is that of another cluster.",
            from(vanished(Capi::New, &GHOST_WORKER), |world| {
                for host in HOSTS {
                    world.edit_at(&Place::Downstream, &NODES, host.hostname, |node| {
                        node["metadata"]["labels"] = json!({});
                        node["metadata"]["annotations"] = json!({});
                    });
                }
            }),
            &["RG102"],
            3,
            Refused("not seen in the downstream cluster"),
        ),
        incident(
            "rg102-other-cluster-without-it",
            LooksLike,
            "The downstream context given is that of another cluster, which has no Node of that name.",
            asked(Capi::New, |world| {
                world.join(&GHOST_WORKER);
                world.memory.others.insert(Place::Downstream, Vec::new());
                world.put_at(
                    &Place::Downstream,
                    NODES,
                    json!({"metadata": {"name": "elsewhere", "uid": uid("elsewhere")}}),
                );
            }),
            &[],
            0,
            Nothing,
        ),
        incident(
            "rg102-replaced-host",
            LooksLike,
            "A host was removed in good order and registered again under its name: one Machine, one Node.",
            asked(Capi::New, |world| {
                world.join(&GHOST_WORKER);
                world.machine(GHOST, |machine| machine["metadata"]["creationTimestamp"] = json!(ago(HOUR)));
            }),
            &[],
            0,
            Nothing,
        ),
        incident(
            "rg102-not-ready",
            LooksLike,
            "The Node is there, but not Ready.",
            asked(Capi::New, |world| {
                world.join(&GHOST_WORKER);
                world.put_at(&Place::Downstream, NODES, GHOST_WORKER.node(false));
                world.machine(GHOST, |machine| set_condition(machine, "Ready", |c| c["status"] = json!("False")));
            }),
            &[],
            0,
            Nothing,
        ),
        incident(
            "rg209-disconnected",
            Triggers,
            "The cluster is not connected: gone and unreachable look the same.",
            asked(Capi::New, |world| {
                world.join(&GHOST_WORKER);
                world.machine(GHOST, |machine| {
                    set_condition(machine, "NodeHealthy", |condition| {
                        condition["status"] = json!("Unknown");
                        condition["reason"] = json!("ConnectionDown");
                        condition["message"] = json!("Last successful probe at 2026-11-30T22:00:00Z");
                    });
                    set_condition(machine, "Ready", |c| c["status"] = json!("Unknown"));
                });
                world.disconnect();
            }),
            &["RG209"],
            5,
            Refused("is no ghost"),
        )
        .recorded(),
        incident(
            "rg209-disconnected-after-it-went",
            Triggers,
            "Cluster API saw the Node go, and then the connection went too: it may be back.",
            from(vanished(Capi::Old, &GHOST_WORKER), World::disconnect),
            &["RG209"],
            5,
            Refused("is no ghost"),
        ),
        incident(
            "rg209-whole-cluster",
            Triggers,
            "A cluster that is not connected, in the fleet: one finding, however many machines it has.",
            build(Capi::New, World::disconnect),
            &["RG209"],
            5,
            Refused("name it as CLUSTER/MACHINE"),
        ),
        incident(
            "rg209-own-connection",
            LooksLike,
            "Rancher has lost the cluster, but a connection of one's own leads there: the Node is gone.",
            from(vanished(Capi::New, &GHOST_WORKER), |world| {
                world.edit(&MANAGEMENT_CLUSTERS, ID, |c| c["status"]["conditions"][0]["status"] = json!("False"));
            }),
            &["RG102"],
            3,
            DELETE,
        ),
    ]
}

fn join_worker_to_ghost(world: &mut World) {
    world.plan_secret(GHOST, |secret| {
        secret["metadata"]["annotations"]["rke.cattle.io/join-url"] = json!("https://192.0.2.99:9345");
    });
    world.plan_secret("custom-3524fa7f0d71", |secret| {
        secret["metadata"]["annotations"]["rke.cattle.io/joined-to"] = json!("https://192.0.2.99:9345");
    });
}

const DRAIN: &str = "Drain not completed yet (started at 2026-11-30T22:00:05Z):\n* Pod default/db-0: cannot evict pod as it would violate the pod's disruption budget.";
const NO_DRAIN: &str = "Error draining Node, please check controller logs for errors";

/// RG103.
fn stuck_deletions() -> Vec<Incident> {
    vec![
        incident(
            "rg103-drain",
            Triggers,
            "The host of a worker is off; its drain waits for a kubelet that does not answer.",
            stuck(Capi::New, &GHOST_WORKER, Step::Drain, DRAIN),
            &["RG103"],
            3,
            PATCH,
        )
        .recorded(),
        incident(
            "rg103-drain-v1beta1",
            Triggers,
            "The same under v1beta1.",
            stuck(Capi::Old, &GHOST_WORKER, Step::Drain, DRAIN),
            &["RG103"],
            3,
            PATCH,
        ),
        incident(
            "rg103-drain-of-a-lost-cluster",
            Triggers,
            "The whole cluster is gone; the drain is tried for ever.",
            from(stuck(Capi::New, &GHOST_WORKER, Step::Drain, NO_DRAIN), World::disconnect),
            &["RG103"],
            3,
            PATCH,
        ),
        incident(
            "rg103-volumes",
            Triggers,
            "Volumes of a host that is off are never detached.",
            stuck(Capi::New, &GHOST_WORKER, Step::Volumes, "Waiting for Node volumes to be detached"),
            &["RG103"],
            3,
            PATCH,
        ),
        incident(
            "rg103-infra",
            Triggers,
            "Rancher's leader was away when the custom machine went, and has not come back to it.",
            stuck(Capi::New, &GHOST_WORKER, Step::Infra, "Waiting for CustomMachine to be deleted"),
            &["RG103"],
            3,
            Plan(&["patch CustomMachine"]),
        ),
        incident(
            "rg103-infra-v1beta1",
            Triggers,
            "The same under v1beta1, which has no condition for this step.",
            stuck(Capi::Old, &GHOST_WORKER, Step::Infra, ""),
            &["RG103"],
            3,
            Plan(&["patch CustomMachine"]),
        ),
        incident(
            "rg103-vm-never-made",
            Triggers,
            "The VM of a pool's machine was never made; its deletion is not refused by anybody yet.",
            from(
                stuck(Capi::New, &POOL_WORKER, Step::Infra, "Waiting for VmwarevsphereMachine to be deleted"),
                |world| {
                    world.ask(POOL_TARGET);
                    world.edit(&VSPHERE_MACHINES, POOL_WORKER.machine, |infra| {
                        infra["status"]["failureReason"] = json!("CreateError");
                        infra["status"]["failureMessage"] = json!("failed creating server");
                    });
                },
            ),
            &["RG103"],
            3,
            Refused("has not said that it cannot delete"),
        ),
        incident(
            "rg103-infra-delete-failed",
            Triggers,
            "The provider says that it cannot delete the VM.",
            from(
                stuck(Capi::New, &POOL_WORKER, Step::Infra, "Waiting for VmwarevsphereMachine to be deleted"),
                |world| {
                    world.ask(POOL_TARGET);
                    world.edit(&VSPHERE_MACHINES, POOL_WORKER.machine, |infra| {
                    infra["status"]["conditions"] =
                        json!([{"type": "DeleteJob", "status": "False", "reason": "DeleteError", "message": "failed deleting server"}]);
                });
                },
            ),
            &["RG103"],
            3,
            Plan(&["patch VmwarevsphereMachine"]),
        ),
        incident(
            "rg103-infra-delete-runs",
            Triggers,
            "The VM is still being deleted: nobody has failed yet.",
            from(
                stuck(Capi::New, &POOL_WORKER, Step::Infra, "Waiting for VmwarevsphereMachine to be deleted"),
                |world| {
                    world.ask(POOL_TARGET);
                },
            ),
            &["RG103"],
            3,
            Refused("has not said that it cannot delete"),
        ),
        incident(
            "rg103-bootstrap",
            Triggers,
            "The RKEBootstrap of a worker is not let go.",
            stuck(Capi::New, &GHOST_WORKER, Step::Bootstrap, "Waiting for RKEBootstrap to be deleted"),
            &["RG103"],
            3,
            Plan(&["patch RKEBootstrap"]),
        ),
        incident(
            "rg103-bootstrap-etcd",
            Triggers,
            "The RKEBootstrap of a server is not let go: nothing proves that its member is out.",
            stuck(Capi::New, &GHOST_SERVER, Step::Bootstrap, "Waiting for RKEBootstrap to be deleted"),
            &["RG103"],
            3,
            Refused("nothing proves that its member is out"),
        ),
        incident(
            "rg103-bootstrap-etcd-never-joined",
            Triggers,
            "The RKEBootstrap of a server that never ran is not let go: there is no member.",
            from(never_joined(Capi::New, &GHOST_SERVER), |world| {
                world.delete_machine(GHOST, 2 * HOUR, Step::Bootstrap, "Waiting for RKEBootstrap to be deleted");
            }),
            &["RG103"],
            3,
            Plan(&["patch RKEBootstrap"]),
        ),
        incident(
            "rg103-node-without-limit",
            Triggers,
            "The Node of a lost cluster is to be deleted, without a limit of time.",
            from(stuck(Capi::New, &GHOST_WORKER, Step::Node, "Error deleting Node"), |world| {
                world.disconnect();
                world.machine(GHOST, |machine| {
                    machine["spec"].as_object_mut().expect("spec").remove("deletion");
                });
            }),
            &["RG103"],
            3,
            PATCH,
        ),
        incident(
            "rg103-node-without-limit-v1beta1",
            Triggers,
            "The same under v1beta1, where it was never tried.",
            from(stuck(Capi::Old, &GHOST_WORKER, Step::Node, ""), |world| {
                world.disconnect();
                world.machine(GHOST, |machine| {
                    machine["spec"].as_object_mut().expect("spec").remove("nodeDeletionTimeout");
                });
            }),
            &["RG103"],
            3,
            Refused("was not tried"),
        ),
        incident(
            "rg103-node-with-limit",
            Triggers,
            "Only Cluster API's own finalizer is left.",
            from(stuck(Capi::New, &GHOST_WORKER, Step::Node, "Error deleting Node"), World::disconnect),
            &["RG103"],
            3,
            Refused("only Cluster API's controller itself"),
        ),
    ]
}

/// RG103, where it is refused or no finding, and RG205.
fn more_deletions() -> Vec<Incident> {
    let hook = "Waiting for pre-terminate hooks to succeed (hooks: pre-terminate.delete.hook.machine.cluster.x-k8s.io/rke-bootstrap-cleanup)";
    vec![
        incident(
            "rg103-drain-etcd",
            Triggers,
            "A server's drain stands still.",
            stuck(Capi::New, &GHOST_SERVER, Step::Drain, DRAIN),
            &["RG103"],
            3,
            Refused("no pure worker"),
        ),
        incident(
            "rg103-drain-held-by-a-budget",
            Triggers,
            "The Node is Ready: a PodDisruptionBudget holds the drain up.",
            from(stuck(Capi::New, &GHOST_WORKER, Step::Drain, DRAIN), |world| {
                world.put_at(&Place::Downstream, NODES, GHOST_WORKER.node(true));
            }),
            &["RG103"],
            3,
            Refused("is Ready, so its host is there"),
        ),
        incident(
            "rg103-drain-not-looked",
            Triggers,
            "The cluster is connected, but nobody has looked whether the Node is alive.",
            from(stuck(Capi::New, &GHOST_WORKER, Step::Drain, DRAIN), World::no_downstream),
            &["RG103"],
            3,
            Refused("was not seen"),
        ),
        incident(
            "rg103-drain-excluded-already",
            Triggers,
            "The drain is excluded already, and the step stands all the same.",
            from(stuck(Capi::New, &GHOST_WORKER, Step::Drain, DRAIN), |world| {
                world.machine(GHOST, |machine| {
                    machine["metadata"]["annotations"]["machine.cluster.x-k8s.io/exclude-node-draining"] = json!("true");
                });
            }),
            &["RG103"],
            3,
            Refused("is set already"),
        ),
        incident(
            "rg103-step-began-just-now",
            Triggers,
            "The deletion is old, but this step began a minute ago.",
            from(stuck(Capi::New, &GHOST_WORKER, Step::Infra, "Waiting for CustomMachine to be deleted"), |world| {
                world.edit(&CUSTOM_MACHINES, GHOST, |infra| {
                    infra["metadata"]["deletionTimestamp"] = json!(ago(MINUTE));
                });
            }),
            &["RG103"],
            3,
            Refused("began 1m"),
        ),
        incident(
            "rg103-pre-drain-hook",
            Triggers,
            "Somebody's hook holds the machine.",
            from(stuck(Capi::New, &GHOST_WORKER, Step::PreDrain, "Waiting for pre-drain hooks"), |world| {
                world.machine(GHOST, |machine| {
                    machine["metadata"]["annotations"]["pre-drain.delete.hook.machine.cluster.x-k8s.io/longhorn"] =
                        json!("longhorn");
                });
            }),
            &["RG103"],
            3,
            Refused("safeguard"),
        ),
        incident(
            "rg103-etcd-hook",
            Triggers,
            "Rancher's hook on a server whose host was switched off.",
            stuck(Capi::New, &GHOST_SERVER, Step::PreTerminate, hook),
            &["RG103"],
            3,
            Refused("safeguard"),
        ),
        incident(
            "rg103-no-leader",
            Triggers,
            "A custom machine is not let go because there is no leader.",
            from(stuck(Capi::New, &GHOST_WORKER, Step::Infra, "Waiting for CustomMachine"), |world| {
                world.renewed(HOUR);
            }),
            &["RG103"],
            3,
            Refused("no working Rancher leader"),
        ),
        incident(
            "rg103-capi-down",
            Triggers,
            "A deletion stands because Cluster API is down.",
            from(stuck(Capi::New, &GHOST_WORKER, Step::Drain, DRAIN), |world| {
                world.edit(&DEPLOYMENTS, "capi-controller-manager", |d| d["status"]["availableReplicas"] = json!(0));
            }),
            &["RG103", "RG208"],
            3,
            Refused("no available replica"),
        ),
        incident(
            "rg103-second-look-failed",
            Triggers,
            "Whether a drain moves is not known: the second look failed.",
            from(stuck(Capi::New, &GHOST_WORKER, Step::Drain, DRAIN), |world| {
                world.forbidden.insert("get machines");
            }),
            &["RG103"],
            3,
            Refused("second look"),
        ),
        incident(
            "rg103-rival-of-the-node",
            Triggers,
            "A deletion stands while another machine refers to the same Node, in a cluster that nobody reaches: to help it on would delete a live Node.",
            from(stuck(Capi::New, &Host { machine: GHOST, ..HOSTS[3] }, Step::Infra, "Waiting for CustomMachine"), World::disconnect),
            &["RG103"],
            3,
            Refused("refers to the same Node"),
        ),
        incident(
            "rg103-five-minutes",
            LooksLike,
            "A machine that is being deleted for five minutes.",
            asked(Capi::New, |world| {
                world.join(&GHOST_WORKER);
                world.delete_machine(GHOST, 5 * MINUTE, Step::Drain, DRAIN);
            }),
            &[],
            0,
            Refused("not stood still for long enough"),
        ),
        incident(
            "rg103-slow-but-moving",
            LooksLike,
            "A drain that takes long: between two looks a pod has gone.",
            from(stuck(Capi::New, &GHOST_WORKER, Step::Drain, DRAIN), |world| {
                let mut later = world.find(&MACHINES, GHOST).expect("it").clone();
                set_condition(&mut later, "Deleting", |condition| {
                    condition["message"] = json!("Drain not completed yet (started at 2026-11-30T22:00:05Z):\n* Pod default/web-3: deletionTimestamp set, but still not removed from the Node");
                });
                world.later(MACHINES, later);
            }),
            &[],
            0,
            Refused("not stood still for long enough"),
        ),
        incident(
            "rg103-paused",
            LooksLike,
            "A deletion that does not move because the machine is paused.",
            from(stuck(Capi::New, &GHOST_WORKER, Step::Infra, "Waiting for CustomMachine"), |world| {
                world.machine(GHOST, |machine| machine["metadata"]["annotations"][PAUSED] = json!("true"));
            }),
            &["RG206"],
            0,
            Refused("paused"),
        ),
        incident(
            "rg205-sibling-joined",
            Triggers,
            "A server cannot go while a worker is joined to it, whose agent does not apply the plan that joins it elsewhere.",
            from(stuck(Capi::New, &GHOST_SERVER, Step::PreTerminate, hook), join_worker_to_ghost),
            &["RG103", "RG205"],
            3,
            Refused("safeguard"),
        )
        .recorded(),
        incident(
            "rg205-joined-elsewhere",
            LooksLike,
            "All siblings are joined to another server.",
            from(stuck(Capi::New, &GHOST_SERVER, Step::PreTerminate, hook), |world| {
                join_worker_to_ghost(world);
                world.plan_secret("custom-3524fa7f0d71", |secret| {
                    secret["metadata"]["annotations"]["rke.cattle.io/joined-to"] = json!("https://192.0.2.21:9345");
                });
            }),
            &["RG103"],
            3,
            Refused("safeguard"),
        ),
    ]
}

/// RG104.
fn reused() -> Vec<Incident> {
    const PAUSED_REMOVAL: Treatment = Plan(&["patch Machine", "delete Machine", "patch Machine"]);
    vec![
        incident(
            "rg104-hostname-reused",
            Triggers,
            "A worker was installed anew under its name: the old machine looks well and would take the live Node along.",
            claimed_twice(Capi::New, Roles::Worker),
            &["RG104"],
            3,
            PAUSED_REMOVAL,
        )
        .recorded(),
        incident(
            "rg104-in-the-fleet",
            Triggers,
            "The same in the fleet: only one of the two is a ghost.",
            from(claimed_twice(Capi::New, Roles::Worker), |world| world.question.target = None),
            &["RG104"],
            3,
            Refused("name it as CLUSTER/MACHINE"),
        ),
        incident(
            "rg104-half-way",
            Triggers,
            "A removal was interrupted when the machine was paused.",
            from(claimed_twice(Capi::New, Roles::Worker), |world| {
                world.machine(GHOST, |machine| {
                    machine["metadata"]["annotations"][PAUSED] = json!("true");
                    set_condition(machine, "Paused", |c| c["status"] = json!("True"));
                });
            }),
            &["RG104", "RG206"],
            3,
            Plan(&["delete Machine", "patch Machine"]),
        ),
        incident(
            "rg104-being-deleted",
            Triggers,
            "Somebody has deleted the old machine: the drain of the live Node has begun.",
            from(claimed_twice(Capi::New, Roles::Worker), |world| {
                world.delete_machine(GHOST, 5 * MINUTE, Step::Drain, DRAIN);
            }),
            &["RG104"],
            3,
            Plan(&["patch Machine", "patch Machine"]),
        ),
        incident(
            "rg104-server",
            Triggers,
            "The same with a server: never tried.",
            claimed_twice(Capi::New, Roles::Server),
            &["RG104"],
            3,
            Refused("no pure worker"),
        ),
        incident(
            "rg104-v1beta1",
            Triggers,
            "The same under v1beta1, whose Machines do not say that they are paused.",
            claimed_twice(Capi::Old, Roles::Worker),
            &["RG104"],
            3,
            Refused("no condition Paused"),
        ),
        incident(
            "rg104-pool",
            Triggers,
            "The same with a machine of a pool: its VM would be left behind.",
            build(Capi::New, |world| {
                world.ask(POOL_TARGET);
                world.join(&POOL_WORKER);
                world.edit_at(&Place::Downstream, &NODES, POOL_WORKER.hostname, |node| {
                    node["metadata"]["labels"]["rke.cattle.io/machine"] = json!(HOSTS[3].uid());
                });
            }),
            &["RG104"],
            3,
            Refused("of a pool"),
        ),
        incident(
            "rg104-whose-is-not-known",
            Triggers,
            "Two machines refer to one Node and nobody has looked whose it is.",
            from(claimed_twice(Capi::New, Roles::Worker), World::no_downstream),
            &["RG104"],
            3,
            Refused("was not seen"),
        ),
        incident(
            "rg104-label-of-nobody",
            Triggers,
            "Two machines refer to one Node, whose label names neither: nobody knows whose it is.",
            from(claimed_twice(Capi::New, Roles::Worker), |world| {
                world.edit_at(&Place::Downstream, &NODES, HOSTS[3].hostname, |node| {
                    node["metadata"]["labels"]["rke.cattle.io/machine"] = json!("0d6d0ab0-0000-4000-8000-000000000000");
                });
            }),
            &["RG104"],
            3,
            Refused("does not say that another machine owns it"),
        ),
        incident(
            "rg104-whose-is-not-known-in-the-fleet",
            Triggers,
            "The same in the fleet: each of the two may be it.",
            from(claimed_twice(Capi::New, Roles::Worker), |world| {
                world.no_downstream();
                world.question.target = None;
            }),
            &["RG104"],
            3,
            Refused("name it as CLUSTER/MACHINE"),
        ),
        incident(
            "rg104-paused-cluster",
            Triggers,
            "The same in a cluster that is paused.",
            from(claimed_twice(Capi::New, Roles::Worker), |world| {
                world.pause_cluster();
            }),
            &["RG104", "RG206"],
            3,
            Refused("is paused"),
        ),
        incident(
            "rg104-further-finalizers",
            Triggers,
            "The same with somebody else's finalizer.",
            from(claimed_twice(Capi::New, Roles::Worker), |world| {
                world.machine(GHOST, |machine| {
                    machine["metadata"]["finalizers"] = json!(["machine.cluster.x-k8s.io", "example.com/mine"]);
                });
            }),
            &["RG104"],
            3,
            Refused("further finalizers"),
        ),
        incident(
            "rg104-the-live-one",
            LooksLike,
            "The live one of the two is asked for.",
            from(claimed_twice(Capi::New, Roles::Worker), |world| world.ask("prod/custom-3524fa7f0d71")),
            &[],
            0,
            Nothing,
        ),
        incident(
            "rg104-same-name-elsewhere",
            LooksLike,
            "Two clusters have a Node of the same name.",
            build(Capi::New, |world| {
                world.cluster(WORKSPACE, "test", "c-m-b7n5tz9h");
                for index in [0, 3] {
                    let name = ["custom-111111111111", "", "", "custom-222222222222"][index];
                    let there = Host { cluster: "test", machine: name, ..HOSTS[index] };
                    world.register(&there, true, Agent::InSync, 20 * DAY);
                }
                world.ask(CLUSTER);
            }),
            &[],
            0,
            Refused("name it as CLUSTER/MACHINE"),
        ),
    ]
}

fn leave(world: &mut World, host: &Host, keep: &ResourceType) {
    world.register(host, true, Agent::InSync, 10 * DAY);
    for kind in [MACHINES, RKE_BOOTSTRAPS, CUSTOM_MACHINES, VSPHERE_MACHINES, SECRETS] {
        if kind != *keep {
            let name = if kind == SECRETS { format!("{}-machine-plan", host.machine) } else { host.machine.to_owned() };
            world.remove(&kind, |object| object["metadata"]["name"] == name);
        }
    }
    if *keep != SECRETS {
        world.remove(&SERVICE_ACCOUNTS, |account| {
            account["metadata"]["labels"]["rke.cattle.io/machine-name"] == host.machine
        });
    }
}

fn dying(object: &mut Value) {
    object["metadata"]["deletionTimestamp"] = json!(ago(9 * DAY));
}

/// RG105 to RG108 and RG110.
fn leftovers() -> Vec<Incident> {
    vec![
        incident(
            "rg105-vm",
            Triggers,
            "The finalizer of a Machine was stripped before its VM was gone: the infra machine asks for it for ever.",
            build(Capi::New, |world| {
                world.ask(POOL_TARGET);
                leave(world, &POOL_WORKER, &VSPHERE_MACHINES);
                world.edit(&VSPHERE_MACHINES, POOL_WORKER.machine, dying);
            }),
            &["RG105"],
            3,
            Plan(&["patch VmwarevsphereMachine"]),
        )
        .recorded(),
        incident(
            "rg105-vm-just-deleted",
            Triggers,
            "The same, a minute after its deletion began: Rancher lets some go without their Machine.",
            build(Capi::New, |world| {
                world.ask(POOL_TARGET);
                leave(world, &POOL_WORKER, &VSPHERE_MACHINES);
                world.edit(&VSPHERE_MACHINES, POOL_WORKER.machine, |infra| {
                    infra["metadata"]["deletionTimestamp"] = json!(ago(MINUTE));
                });
            }),
            &["RG105"],
            3,
            Refused("began 1m"),
        ),
        incident(
            "rg105-vm-in-the-fleet-v1beta1",
            Triggers,
            "The same in the fleet under v1beta1.",
            build(Capi::Old, |world| {
                leave(world, &POOL_WORKER, &VSPHERE_MACHINES);
                world.edit(&VSPHERE_MACHINES, POOL_WORKER.machine, dying);
            }),
            &["RG105"],
            3,
            Refused("name it as CLUSTER/MACHINE"),
        ),
        incident(
            "rg105-custom",
            Triggers,
            "A custom machine without its Machine, which nobody has deleted.",
            asked(Capi::New, |world| leave(world, &GHOST_WORKER, &CUSTOM_MACHINES)),
            &["RG105"],
            3,
            Plan(&["delete CustomMachine"]),
        ),
        incident(
            "rg105-cluster-gone",
            Triggers,
            "The cluster of an infra machine is gone altogether.",
            build(Capi::New, |world| {
                let gone = Host { cluster: "gone", ..POOL_WORKER };
                leave(world, &gone, &VSPHERE_MACHINES);
                world.edit(&VSPHERE_MACHINES, POOL_WORKER.machine, dying);
            }),
            &["RG105"],
            3,
            Refused("name it as CLUSTER/MACHINE"),
        ),
        incident(
            "rg105-cluster-gone-one",
            Triggers,
            "The same, by its name.",
            build(Capi::New, |world| {
                world.ask(&format!("gone/{}", POOL_WORKER.machine));
                let gone = Host { cluster: "gone", ..POOL_WORKER };
                leave(world, &gone, &VSPHERE_MACHINES);
                world.edit(&VSPHERE_MACHINES, POOL_WORKER.machine, dying);
            }),
            &["RG105"],
            3,
            Plan(&["patch VmwarevsphereMachine"]),
        ),
        incident(
            "rg105-cluster-gone-machine-there",
            LooksLike,
            "A cluster that is gone, whose Machine is still there: its infra machine is no orphan.",
            build(Capi::New, |world| {
                world.ask(&format!("gone/{}", POOL_WORKER.machine));
                world.register(&Host { cluster: "gone", ..POOL_WORKER }, true, Agent::InSync, 10 * DAY);
            }),
            &["RX006"],
            2,
            Nothing,
        ),
        incident(
            "rg105-just-made",
            LooksLike,
            "A host is being registered: its infra machine was seen, its Machine not yet.",
            asked(Capi::New, |world| {
                leave(world, &GHOST_WORKER, &CUSTOM_MACHINES);
                world.edit(&CUSTOM_MACHINES, GHOST, |infra| infra["metadata"]["creationTimestamp"] = json!(ago(20)));
            }),
            &[],
            0,
            Nothing,
        ),
        incident(
            "rg105-other-name",
            LooksLike,
            "An older Cluster API gave the infra machine a name of its own.",
            build(Capi::Old, |world| {
                world.join(&POOL_WORKER);
                world.edit(&VSPHERE_MACHINES, POOL_WORKER.machine, |infra| {
                    infra["metadata"]["name"] = json!("prod-pool1-8fj2k");
                });
                world.machine(POOL_WORKER.machine, |machine| {
                    machine["spec"]["infrastructureRef"]["name"] = json!("prod-pool1-8fj2k");
                });
            }),
            &[],
            0,
            Refused("name it as CLUSTER/MACHINE"),
        ),
        incident(
            "rg106-bootstrap",
            Triggers,
            "An RKEBootstrap without its Machine.",
            asked(Capi::New, |world| {
                leave(world, &GHOST_WORKER, &RKE_BOOTSTRAPS);
                world.edit(&RKE_BOOTSTRAPS, GHOST, dying);
            }),
            &["RG106"],
            0,
            Plan(&["patch RKEBootstrap"]),
        )
        .recorded(),
        incident(
            "rg106-bootstrap-of-a-live-host",
            Triggers,
            "A Machine was lost in a restore: its RKEBootstrap goes with the plan Secret that a running agent works with.",
            asked(Capi::New, |world| {
                leave(world, &GHOST_WORKER, &RKE_BOOTSTRAPS);
                world.put_at(&Place::Downstream, NODES, GHOST_WORKER.node(true));
            }),
            &["RG106"],
            0,
            Refused("its agent may be running"),
        ),
        incident(
            "rg106-bootstrap-of-an-agent-that-answered",
            Triggers,
            "The same without a look at the Nodes.",
            asked(Capi::New, |world| {
                world.no_downstream();
                leave(world, &GHOST_WORKER, &RKE_BOOTSTRAPS);
                world.put(SECRETS, GHOST_WORKER.secret(Agent::InSync, DAY));
            }),
            &["RG106"],
            0,
            Refused("has answered into"),
        ),
        incident(
            "rg106-plan-secret",
            Triggers,
            "A plan Secret without its RKEBootstrap.",
            build(Capi::New, |world| {
                world.ask(CLUSTER);
                leave(world, &GHOST_WORKER, &SECRETS);
            }),
            &["RG106"],
            0,
            Refused("name it as CLUSTER/MACHINE"),
        ),
        incident(
            "rg106-plan-secret-one",
            Triggers,
            "The same, by its name: with the ServiceAccount that belongs to it.",
            asked(Capi::New, |world| leave(world, &GHOST_WORKER, &SECRETS)),
            &["RG106"],
            0,
            Plan(&["delete Secret", "delete ServiceAccount"]),
        ),
        incident(
            "rg106-plan-secret-in-the-fleet",
            Triggers,
            "The same in the fleet.",
            build(Capi::New, |world| leave(world, &GHOST_WORKER, &SECRETS)),
            &["RG106"],
            0,
            Refused("name it as CLUSTER/MACHINE"),
        ),
        incident(
            "rg106-collected-meanwhile",
            LooksLike,
            "The machine went this moment: garbage collection is about to follow.",
            build(Capi::New, |world| {
                leave(world, &GHOST_WORKER, &SECRETS);
                let plan = format!("{GHOST}-machine-plan");
                world.memory.gone_later(SECRETS, Some(WORKSPACE), &plan);
                world.memory.gone_later(SERVICE_ACCOUNTS, Some(WORKSPACE), &plan);
            }),
            &[],
            0,
            Refused("name it as CLUSTER/MACHINE"),
        ),
        incident(
            "rg106-plan-secret-of-a-cluster-that-is-gone",
            Triggers,
            "The cluster is gone too.",
            build(Capi::New, |world| {
                world.ask(&format!("gone/{GHOST}"));
                leave(world, &Host { cluster: "gone", ..GHOST_WORKER }, &SECRETS);
            }),
            &["RG106"],
            0,
            Plan(&["delete Secret", "delete ServiceAccount"]),
        ),
        incident(
            "rg106-account-alone",
            Triggers,
            "Only a ServiceAccount is left, which names no cluster: its workspace stands for it.",
            build(Capi::New, |world| {
                world.ask(&format!("{WORKSPACE}/{GHOST}"));
                leave(world, &GHOST_WORKER, &SECRETS);
                world.remove(&SECRETS, |secret| secret["metadata"]["name"] == "custom-2d74d4c9a104-machine-plan");
            }),
            &["RG106"],
            0,
            Plan(&["delete ServiceAccount"]),
        ),
        incident(
            "rg106-account-of-another-cluster",
            LooksLike,
            "The machine of another cluster, asked for in this one: what belongs to it lives.",
            build(Capi::New, |world| {
                world.cluster(WORKSPACE, "other", "c-m-b7n5tz9h");
                world.register(&Host { cluster: "other", ..GHOST_WORKER }, true, Agent::InSync, 80 * DAY);
                world.ask(TARGET);
            }),
            &["RX006"],
            2,
            Nothing,
        ),
        incident(
            "rg106-deletion-goes-on",
            LooksLike,
            "A deletion is at the bootstrap: its Machine is still there.",
            asked(Capi::New, |world| {
                world.join(&GHOST_WORKER);
                world.delete_machine(GHOST, 5 * MINUTE, Step::Bootstrap, "Waiting for RKEBootstrap to be deleted");
            }),
            &[],
            0,
            Refused("not stood still for long enough"),
        ),
        incident(
            "rg107-node-without-machine",
            Triggers,
            "A Node of the cluster that no machine claims: Rancher does not manage it.",
            build(Capi::New, |world| {
                world.ask(CLUSTER);
                world.put_at(&Place::Downstream, NODES, GHOST_WORKER.node(true));
            }),
            &["RG107"],
            0,
            Refused("name it as CLUSTER/MACHINE"),
        )
        .recorded(),
        incident(
            "rg107-in-the-fleet",
            Triggers,
            "The same, in a check of all clusters.",
            build(Capi::New, |world| {
                world.put_at(&Place::Downstream, NODES, GHOST_WORKER.node(true));
                world.cluster("fleet-local", "local", "local");
            }),
            &["RG107"],
            0,
            Refused("name it as CLUSTER/MACHINE"),
        ),
        incident(
            "rg107-just-registered",
            LooksLike,
            "A Node whose machine has no nodeRef yet carries that machine's UID.",
            build(Capi::New, |world| {
                world.ask(CLUSTER);
                world.register(&GHOST_WORKER, false, Agent::InSync, 10 * MINUTE);
                world.put_at(&Place::Downstream, NODES, GHOST_WORKER.node(true));
            }),
            &[],
            0,
            Refused("name it as CLUSTER/MACHINE"),
        ),
        incident(
            "rg108-cluster-gone",
            Triggers,
            "Copies of Nodes of a cluster that is gone.",
            build(Capi::New, |world| {
                world.namespace("c-m-00gone00");
                copies_of_a_lost_cluster(world, 9 * DAY);
            }),
            &["RG108"],
            0,
            Refused("name it as CLUSTER/MACHINE"),
        )
        .recorded(),
        incident(
            "rg108-one",
            Triggers,
            "One of them, by its name: Rancher does not remove its finalizer any more.",
            one_copy(|_, _| {}),
            &["RG108"],
            0,
            Plan(&["patch Node"]),
        ),
        incident(
            "rg108-not-deleted",
            Triggers,
            "Nobody has deleted it.",
            one_copy(|_, copy| copy["metadata"]["deletionTimestamp"] = Value::Null),
            &["RG108"],
            0,
            Plan(&["delete Node"]),
        ),
        incident(
            "rg108-of-2.5",
            Triggers,
            "A finalizer that the controllers of the cluster itself removed, which went with it.",
            one_copy(|_, copy| {
                copy["metadata"]["finalizers"] =
                    json!(["clusterscoped.controller.cattle.io/user-node-remove_c-m-00gone00"]);
            }),
            &["RG108"],
            0,
            Plan(&["patch Node"]),
        ),
        incident(
            "rg108-unknown-finalizer",
            Triggers,
            "A finalizer of somebody else.",
            one_copy(|_, copy| copy["metadata"]["finalizers"] = json!(["example.com/backup"])),
            &["RG108"],
            0,
            Refused("example.com/backup, which is not known here"),
        ),
        incident(
            "rg108-before-2.12",
            Triggers,
            "Rancher still removes the finalizer itself.",
            one_copy(|world, _| world.setting("server-version", "v2.11.3")),
            &["RG108"],
            0,
            Refused("Rancher before 2.12"),
        ),
        incident(
            "rg108-without-leader",
            Triggers,
            "Nobody leads.",
            one_copy(|world, _| world.renewed(HOUR)),
            &["RG108"],
            0,
            Refused("no working Rancher leader"),
        ),
        incident(
            "rg108-just-deleted",
            Triggers,
            "Its deletion has just begun.",
            one_copy(|_, copy| copy["metadata"]["deletionTimestamp"] = json!(ago(MINUTE))),
            &["RG108"],
            0,
            Refused("its deletion began"),
        ),
        incident(
            "rx006-half-a-cluster",
            Triggers,
            "A provisioning Cluster still names the management Cluster that is gone: the cluster may live.",
            one_copy(|world, _| {
                world.cluster(WORKSPACE, "half", "c-m-00gone00");
                world.remove(&MANAGEMENT_CLUSTERS, |cluster| cluster["metadata"]["name"] == "c-m-00gone00");
            }),
            &["RX006"],
            2,
            Refused("still names c-m-00gone00"),
        ),
        incident(
            "rg110-one",
            Triggers,
            "One of them, in a namespace that is gone too.",
            one_copy(|world, _| world.remove(&NAMESPACES, |namespace| namespace["metadata"]["name"] == "c-m-00gone00")),
            &["RG110"],
            3,
            Refused("namespace c-m-00gone00 does not exist"),
        ),
        incident(
            "rg108-cluster-lives",
            LooksLike,
            "The copy of a Node of a cluster that lives.",
            build(Capi::New, |world| {
                world.join(&GHOST_WORKER);
                let copy = GHOST_WORKER.copy(ID);
                world.ask(&format!("{ID}/{}", copy["metadata"]["name"].as_str().expect("a name")));
            }),
            &["RX006"],
            2,
            Refused("can delete the real Node"),
        ),
        incident(
            "rg108-node-gone",
            Triggers,
            "The copy of a Node that is gone from a cluster that lives: Rancher itself takes it away.",
            build(Capi::New, |world| {
                world.ask(CLUSTER);
                world.put(MANAGEMENT_NODES, GHOST_WORKER.copy(ID));
            }),
            &["RG108"],
            0,
            Refused("name it as CLUSTER/MACHINE"),
        ),
        incident(
            "rg108-node-just-gone",
            LooksLike,
            "A Node went this moment: Rancher takes its copy away.",
            build(Capi::New, |world| {
                world.ask(CLUSTER);
                let copy = GHOST_WORKER.copy(ID);
                world.memory.gone_later(MANAGEMENT_NODES, Some(ID), copy["metadata"]["name"].as_str().expect("a name"));
                world.put(MANAGEMENT_NODES, copy);
            }),
            &[],
            0,
            Refused("name it as CLUSTER/MACHINE"),
        ),
        incident(
            "rg108-node-not-seen",
            LooksLike,
            "The same, where the Nodes are not seen.",
            build(Capi::New, |world| {
                world.ask(CLUSTER);
                world.put(MANAGEMENT_NODES, GHOST_WORKER.copy(ID));
                world.no_downstream();
            }),
            &[],
            0,
            Refused("name it as CLUSTER/MACHINE"),
        ),
        incident(
            "rg108-going-now",
            LooksLike,
            "A cluster was removed a minute ago, and its copies of Nodes are going.",
            build(Capi::New, |world| {
                world.namespace("c-m-00gone00");
                copies_of_a_lost_cluster(world, MINUTE);
            }),
            &[],
            0,
            Refused("name it as CLUSTER/MACHINE"),
        ),
        incident(
            "rg110-namespace-gone",
            Triggers,
            "Somebody took the finalizer off a namespace: what was in it lives on without.",
            build(Capi::New, |world| copies_of_a_lost_cluster(world, 9 * DAY)),
            &["RG110"],
            3,
            Refused("name it as CLUSTER/MACHINE"),
        )
        .recorded(),
        incident(
            "rg110-workspace-gone",
            Triggers,
            "Somebody took the finalizer off a workspace: its clusters and machines live on without.",
            build(Capi::New, |world| world.remove(&NAMESPACES, |namespace| namespace["metadata"]["name"] == WORKSPACE)),
            &["RG110"],
            3,
            Refused("name it as CLUSTER/MACHINE"),
        ),
        incident(
            "rg110-of-a-cluster-that-lives",
            Triggers,
            "The namespace of a cluster that lives is gone.",
            build(Capi::New, |world| {
                world.join(&GHOST_WORKER);
                world.ask(CLUSTER);
                world.remove(&NAMESPACES, |namespace| namespace["metadata"]["name"] == ID);
            }),
            &["RG110"],
            3,
            Refused("name it as CLUSTER/MACHINE"),
        ),
        incident(
            "rg110-namespaces-forbidden",
            LooksLike,
            "Which namespaces there are cannot be read.",
            build(Capi::New, |world| {
                copies_of_a_lost_cluster(world, 9 * DAY);
                world.forbidden.insert("list namespaces");
            }),
            &["RG108"],
            0,
            Refused("name it as CLUSTER/MACHINE"),
        ),
    ]
}

/// A copy of a Node of a cluster that is gone, asked for by its name.
fn one_copy(change: impl FnOnce(&mut World, &mut Value)) -> World {
    build(Capi::New, |world| {
        world.ask("c-m-00gone00/machine-4x8tq");
        world.namespace("c-m-00gone00");
        copies_of_a_lost_cluster(world, 9 * DAY);
        let mut copy = world.find(&MANAGEMENT_NODES, "machine-4x8tq").expect("it").clone();
        change(world, &mut copy);
        world.put(MANAGEMENT_NODES, copy);
    })
}

fn copies_of_a_lost_cluster(world: &mut World, deleted_ago: i64) {
    for name in ["machine-4x8tq", "machine-k2v9d"] {
        world.put(
            MANAGEMENT_NODES,
            json!({
                "apiVersion": "management.cattle.io/v3", "kind": "Node",
                "metadata": {
                    "name": name, "namespace": "c-m-00gone00", "uid": uid(name), "creationTimestamp": ago(90 * DAY),
                    "deletionTimestamp": ago(deleted_ago), "finalizers": ["controller.cattle.io/node-controller"],
                },
            }),
        );
    }
}

/// RG109, RG206 to RG208.
fn clusters() -> Vec<Incident> {
    const NAME_ONE: Treatment = Refused("name it as CLUSTER/MACHINE");
    let replaced = "rkecontrolplane was already initialized but no etcd machines exist that have plans, indicating the etcd plane has been entirely replaced. Restoration from etcd snapshot is required.";
    vec![
        incident(
            "rg109-management-cluster-alone",
            Triggers,
            "The provisioning Cluster is gone, its management Cluster stays.",
            build(Capi::New, |world| {
                world.cluster(WORKSPACE, "old", "c-m-b7n5tz9h");
                world.remove(&PROVISIONING_CLUSTERS, |cluster| cluster["metadata"]["name"] == "old");
            }),
            &["RG109"],
            3,
            NAME_ONE,
        )
        .recorded(),
        incident(
            "rg109-management-cluster-by-its-name",
            Triggers,
            "The same, by its name.",
            build(Capi::New, |world| {
                world.ask("c-m-b7n5tz9h");
                world.cluster(WORKSPACE, "old", "c-m-b7n5tz9h");
                world.remove(&PROVISIONING_CLUSTERS, |cluster| cluster["metadata"]["name"] == "old");
            }),
            &["RG109"],
            3,
            Refused("and no cluster"),
        ),
        incident(
            "rg105-cluster-removed-in-one-workspace",
            Triggers,
            "The cluster is gone from one workspace; another one has a cluster of the same name.",
            build(Capi::New, |world| {
                world.namespace("fleet-team");
                world.cluster("fleet-team", CLUSTER, "c-m-b7n5tz9h");
                world.remove(&PROVISIONING_CLUSTERS, |cluster| cluster["metadata"]["namespace"] == WORKSPACE);
                world.remove(&MACHINES, |_| true);
                world.remove(&CUSTOM_MACHINES, |_| true);
                world.remove(&RKE_BOOTSTRAPS, |_| true);
                world.remove(&SECRETS, |_| true);
                world.remove(&SERVICE_ACCOUNTS, |_| true);
                world.remove(&MANAGEMENT_NODES, |_| true);
                world.remove(&MANAGEMENT_CLUSTERS, |cluster| cluster["metadata"]["name"] == ID);
                leave(world, &POOL_WORKER, &VSPHERE_MACHINES);
                world.edit(&VSPHERE_MACHINES, POOL_WORKER.machine, dying);
            }),
            &["RG105"],
            3,
            NAME_ONE,
        ),
        incident(
            "rg109-machines-alone",
            Triggers,
            "Machines whose provisioning Cluster is gone.",
            build(Capi::New, |world| {
                world.register(&Host { cluster: "gone", ..GHOST_WORKER }, true, Agent::InSync, 10 * DAY);
            }),
            &["RG109"],
            3,
            Refused("name it as CLUSTER/MACHINE"),
        ),
        incident(
            "rg109-cluster-api-alone",
            LooksLike,
            "A cluster that somebody runs with Cluster API alone.",
            build(Capi::New, |world| {
                world.register(&Host { cluster: "capa", ..GHOST_WORKER }, true, Agent::InSync, 10 * DAY);
                world.machine(GHOST, |machine| {
                    machine["spec"]["bootstrap"]["configRef"]["kind"] = json!("RKE2Config");
                    machine["spec"]["bootstrap"]["configRef"]["apiGroup"] = json!("bootstrap.cluster.x-k8s.io");
                });
                for kind in [RKE_BOOTSTRAPS, CUSTOM_MACHINES, SECRETS, SERVICE_ACCOUNTS] {
                    world.remove(&kind, |object| object.to_string().contains(GHOST));
                }
            }),
            &[],
            0,
            Refused("name it as CLUSTER/MACHINE"),
        ),
        incident(
            "rg109-provisioning-cluster-alone",
            Triggers,
            "The management Cluster is gone, its provisioning Cluster stays.",
            build(Capi::New, |world| {
                world.cluster(WORKSPACE, "old", "c-m-b7n5tz9h");
                world.remove(&MANAGEMENT_CLUSTERS, |cluster| cluster["metadata"]["name"] == "c-m-b7n5tz9h");
            }),
            &["RG109"],
            3,
            NAME_ONE,
        ),
        incident(
            "rg109-stuck-removing",
            Triggers,
            "A cluster was removed two hours ago and still waits for a machine.",
            build(Capi::New, |world| {
                world.ask(CLUSTER);
                world.edit(&PROVISIONING_CLUSTERS, CLUSTER, |cluster| {
                    cluster["metadata"]["deletionTimestamp"] = json!(ago(2 * HOUR));
                });
            }),
            &["RG109"],
            3,
            Refused("and no cluster"),
        ),
        incident(
            "rg109-imported",
            LooksLike,
            "An imported cluster never had a provisioning Cluster of its own making.",
            build(Capi::New, |world| {
                world.cluster(WORKSPACE, "imported", "c-7k2xm");
                world.remove(&PROVISIONING_CLUSTERS, |cluster| cluster["metadata"]["name"] == "imported");
                world.edit(&MANAGEMENT_CLUSTERS, "c-7k2xm", |cluster| {
                    cluster["metadata"]["annotations"] = json!({});
                });
            }),
            &[],
            0,
            NAME_ONE,
        ),
        incident(
            "rg109-being-removed",
            LooksLike,
            "A cluster was removed a minute ago: its halves go one after the other.",
            build(Capi::New, |world| {
                world.cluster(WORKSPACE, "old", "c-m-b7n5tz9h");
                world.remove(&PROVISIONING_CLUSTERS, |cluster| cluster["metadata"]["name"] == "old");
                world.edit(&MANAGEMENT_CLUSTERS, "c-m-b7n5tz9h", |cluster| {
                    cluster["metadata"]["deletionTimestamp"] = json!(ago(MINUTE));
                });
            }),
            &[],
            0,
            NAME_ONE,
        ),
        incident(
            "rg206-left-paused",
            Triggers,
            "A restore that failed has left the cluster paused.",
            build(Capi::New, |world| {
                world.ask(CLUSTER);
                world.edit(&CAPI_CLUSTERS, CLUSTER, |cluster| {
                    cluster["spec"]["paused"] = json!(true);
                    cluster["status"]["conditions"][0]["status"] = json!("True");
                });
            }),
            &["RG206"],
            0,
            NAME_ONE,
        )
        .recorded(),
        incident(
            "rg206-left-paused-v1beta1",
            Triggers,
            "The same under v1beta1, in the fleet.",
            build(Capi::Old, |world| {
                world.pause_cluster();
                world.register(&GHOST_WORKER, false, Agent::Never, 2 * MINUTE);
            }),
            &["RG206"],
            0,
            NAME_ONE,
        ),
        incident(
            "rg206-plane-in-the-fleet",
            Triggers,
            "Only the control plane is paused; its machines are well.",
            build(Capi::New, |world| {
                let message = "CAPI cluster or RKEControlPlane is paused";
                world.planner(message);
                world.edit(&PROVISIONING_CLUSTERS, CLUSTER, |cluster| {
                    cluster["status"]["conditions"] =
                        json!([{"type": "Updated", "status": "Unknown", "reason": "Waiting", "message": message}]);
                });
                world.edit(&RKE_CONTROL_PLANES, CLUSTER, |plane| {
                    plane["metadata"]["annotations"] = json!({PAUSED: "true"});
                });
            }),
            &["RG206"],
            0,
            NAME_ONE,
        ),
        incident(
            "rg206-restored",
            LooksLike,
            "A restore that has ended.",
            build(Capi::New, |world| {
                world.ask(CLUSTER);
                world.edit(&RKE_CONTROL_PLANES, CLUSTER, |plane| {
                    plane["status"]["etcdSnapshotRestorePhase"] = json!("Finished");
                });
            }),
            &[],
            0,
            NAME_ONE,
        ),
        incident(
            "rg207-plan-secrets-lost",
            Triggers,
            "After a move of Rancher the plan Secrets are missing; the etcd nodes run.",
            build(Capi::New, |world| {
                world.ask(CLUSTER);
                world.planner(replaced);
                world.remove(&SECRETS, |_| true);
            }),
            &["RG207"],
            3,
            NAME_ONE,
        )
        .recorded(),
        incident(
            "rg207-waits-for-etcd",
            LooksLike,
            "A new cluster waits for its first etcd machine.",
            build(Capi::New, |world| {
                world.ask(CLUSTER);
                world.planner("waiting for at least one etcd node");
            }),
            &[],
            0,
            NAME_ONE,
        ),
        incident(
            "rg208-no-replica",
            Triggers,
            "Cluster API's controller has no replica.",
            build(Capi::New, |world| {
                world.edit(&DEPLOYMENTS, "capi-controller-manager", |d| d["status"] = json!({"replicas": 1}));
            }),
            &["RG208"],
            3,
            NAME_ONE,
        )
        .recorded(),
        incident(
            "rg208-not-installed",
            Triggers,
            "From Rancher 2.13 on a Deployment must be there.",
            build(Capi::New, |world| world.remove(&DEPLOYMENTS, |_| true)),
            &["RG208"],
            3,
            NAME_ONE,
        ),
        incident(
            "rg208-uninstalled-with-its-kinds",
            Triggers,
            "Cluster API was uninstalled with its kinds: what is left of live machines looks like orphans.",
            build(Capi::New, |world| {
                world.join(&GHOST_WORKER);
                world.remove(&DEPLOYMENTS, |_| true);
                world.not_served.extend(["machines", "clusters.cluster.x-k8s.io", "machinesets"]);
            }),
            &["RG208"],
            3,
            NAME_ONE,
        ),
        incident(
            "rg105-uninstalled-with-its-kinds",
            LooksLike,
            "The same before Rancher 2.13, where the controller may be part of Rancher.",
            asked(Capi::Old, |world| {
                world.join(&GHOST_WORKER);
                world.remove(&DEPLOYMENTS, |_| true);
                world.not_served.extend(["machines", "clusters.cluster.x-k8s.io", "machinesets"]);
            }),
            &[],
            0,
            Nothing,
        ),
        incident(
            "rg208-embedded",
            LooksLike,
            "Before, it may be part of Rancher.",
            build(Capi::Old, |world| world.remove(&DEPLOYMENTS, |_| true)),
            &[],
            0,
            NAME_ONE,
        ),
        incident(
            "rg208-embedded-by-a-feature",
            LooksLike,
            "In 2.13 a feature may keep it inside Rancher.",
            build(Capi::New, |world| {
                world.setting("server-version", "v2.13.2");
                world.remove(&DEPLOYMENTS, |_| true);
                world.put(
                    FEATURES,
                    json!({
                        "apiVersion": "management.cattle.io/v3", "kind": "Feature",
                        "metadata": {"name": "embedded-cluster-api"}, "spec": {"value": true},
                    }),
                );
            }),
            &[],
            0,
            NAME_ONE,
        ),
        incident(
            "rg208-not-installed-2.13",
            Triggers,
            "The same without that feature.",
            build(Capi::New, |world| {
                world.setting("server-version", "v2.13.2");
                world.remove(&DEPLOYMENTS, |_| true);
            }),
            &["RG208"],
            3,
            NAME_ONE,
        ),
        incident(
            "rg208-no-machines",
            LooksLike,
            "A Rancher that has never provisioned anything.",
            from(World::empty(Capi::New), |world| {
                world.remove(&DEPLOYMENTS, |_| true);
                world.not_served.insert("machines");
            }),
            &[],
            0,
            NAME_ONE,
        ),
    ]
}

/// RG201 to RG204.
fn plans() -> Vec<Incident> {
    let with = |agent: Agent| {
        asked(Capi::New, |world| {
            world.join(&GHOST_WORKER);
            let secret = GHOST_WORKER.secret(agent, 2 * HOUR);
            world.put(SECRETS, secret);
        })
    };
    vec![
        incident(
            "rg201-leader-gone",
            Triggers,
            "The agent has applied its plan; Rancher's leader is gone and does not see it.",
            asked(Capi::New, |world| {
                world.register(&GHOST_SERVER, false, Agent::Unnoticed, 3 * HOUR);
                world.planner(&format!("configuring bootstrap node(s) {GHOST}: {CHECK_IN}"));
                world.renewed(HOUR);
            }),
            &["RG201", "RG210"],
            0,
            Refused("is no ghost"),
        )
        .recorded(),
        incident(
            "rg201-in-sync",
            LooksLike,
            "Plan and applied plan are the same.",
            with(Agent::InSync),
            &[],
            0,
            Nothing,
        ),
        incident(
            "rg202-failing",
            Triggers,
            "The agent fails at its plan.",
            with(Agent::Failing),
            &["RG202"],
            3,
            Refused("is no ghost"),
        )
        .recorded(),
        incident(
            "rg202-joining",
            Triggers,
            "The agent of a machine that has not joined fails at its plan: no ghost.",
            asked(Capi::Old, |world| world.register(&GHOST_WORKER, false, Agent::Failing, 3 * HOUR)),
            &["RG202"],
            3,
            Refused("is no ghost"),
        ),
        incident(
            "rg202-succeeded-since",
            LooksLike,
            "It failed an older plan, and has applied this one.",
            from(with(Agent::InSync), |world| {
                world.plan_secret(GHOST, |secret| {
                    use base64::Engine as _;
                    let encode = |text: &str| json!(base64::prelude::BASE64_STANDARD.encode(text));
                    secret["data"]["failed-checksum"] = encode("0123");
                    secret["data"]["failure-count"] = encode("3");
                });
            }),
            &[],
            0,
            Nothing,
        ),
        incident(
            "rg203-silent",
            Triggers,
            "The agent has not answered a plan of two hours ago.",
            with(Agent::Silent),
            &["RG203"],
            0,
            Refused("is no ghost"),
        )
        .recorded(),
        incident(
            "rg203-new-plan",
            LooksLike,
            "The plan is three minutes old.",
            from(with(Agent::Silent), |world| {
                world.plan_secret(GHOST, |secret| {
                    secret["metadata"]["annotations"]["rke.cattle.io/plan-last-updated"] = json!(ago(3 * MINUTE));
                });
            }),
            &[],
            0,
            Nothing,
        ),
        incident(
            "rg204-probes",
            Triggers,
            "A probe fails.",
            with(Agent::SickProbes),
            &["RG204"],
            0,
            Refused("is no ghost"),
        )
        .recorded(),
        incident("rg204-healthy", LooksLike, "All probes succeed.", with(Agent::InSync), &[], 0, Nothing),
    ]
}

/// The shared codes.
fn shared() -> Vec<Incident> {
    const NAME_ONE: Treatment = Refused("name it as CLUSTER/MACHINE");
    vec![
        incident(
            "rx001-machines-forbidden",
            Triggers,
            "Machines may not be listed.",
            build(Capi::New, |world| {
                world.forbidden.insert("list machines");
            }),
            &["RX001"],
            5,
            NAME_ONE,
        )
        .recorded(),
        incident(
            "rx001-secrets-forbidden",
            Triggers,
            "Plan Secrets may not be read: whether the agent answers is not known.",
            from(never_joined(Capi::New, &GHOST_WORKER), |world| {
                world.forbidden.insert("list secrets");
                world.forbidden.insert("get secrets");
            }),
            &["RG209", "RX001"],
            5,
            Refused(""),
        ),
        incident(
            "rx001-settings-forbidden",
            LooksLike,
            "A setting may not be read, on which nothing depends.",
            build(Capi::New, |world| {
                world.forbidden.insert("get settings");
            }),
            &[],
            0,
            NAME_ONE,
        ),
        incident(
            "rx004-clock",
            Triggers,
            "This machine's clock is two minutes behind.",
            build(Capi::New, |world| world.memory.origin.clock_skew_seconds = 120),
            &["RX004"],
            0,
            NAME_ONE,
        ),
        incident(
            "rx004-three-seconds",
            LooksLike,
            "Three seconds are nothing.",
            build(Capi::New, |world| world.memory.origin.clock_skew_seconds = 3),
            &[],
            0,
            NAME_ONE,
        ),
        incident(
            "rx005-no-rancher",
            Triggers,
            "A cluster without Rancher.",
            build(Capi::New, |world| {
                world.not_served.extend(["clusters.provisioning.cattle.io", "clusters.management.cattle.io"]);
                world.memory.origin.other_contexts = vec!["rancher-mgmt".to_owned(), "shop".to_owned()];
            }),
            &["RX005"],
            2,
            Refused(""),
        )
        .recorded(),
        incident(
            "rx005-nothing-provisioned",
            LooksLike,
            "A Rancher that has no clusters at all.",
            World::empty(Capi::New),
            &[],
            0,
            NAME_ONE,
        ),
        incident(
            "rx006-no-such-machine",
            Triggers,
            "A machine that does not exist.",
            build(Capi::New, |world| world.ask("prod/custom-000000000000")),
            &["RX006"],
            2,
            Nothing,
        )
        .recorded(),
        incident(
            "rx006-no-such-cluster",
            Triggers,
            "A cluster that does not exist.",
            build(Capi::New, |world| world.ask("nowhere")),
            &["RX006"],
            2,
            NAME_ONE,
        ),
        incident(
            "rx006-two-clusters",
            Triggers,
            "Two clusters of that name.",
            build(Capi::New, |world| {
                world.cluster("fleet-team", CLUSTER, "c-m-b7n5tz9h");
                world.ask("prod");
            }),
            &["RX006"],
            2,
            NAME_ONE,
        ),
        incident(
            "rx006-by-its-id",
            LooksLike,
            "A cluster by its id.",
            build(Capi::New, |world| world.ask(ID)),
            &[],
            0,
            NAME_ONE,
        ),
    ]
}
