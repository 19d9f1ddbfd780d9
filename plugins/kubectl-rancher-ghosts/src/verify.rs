//! Watching a machine go: step by step, until nothing of it is left and the planner does not wait for it any more.

use std::time::Duration;

use rancher_common::doctor::{Verification, Verifier};
use rancher_common::kinds::{NODES, SECRETS};
use rancher_common::plan::Plan;
use rancher_common::rancher::{MACHINES, RKE_CONTROL_PLANES};
use rancher_common::resource::ResourceType;
use rancher_common::snapshot::{Form, Need, Place, Snapshot, Unread, Want};
use rancher_common::time::{Timestamp, between, human};

use crate::Question;
use crate::findings;
use crate::model::fleet::Fleet;
use crate::model::machine::{Machine, Step};
use crate::model::objects::{ControlPlane, Node};
use crate::model::planner;

/// Needs of the verifier.
const WHY: &str = "whether the machine and what belongs to it are gone";
/// For how long all must be gone before it is believed that nothing makes it anew.
const WATCHED: u64 = 1;

/// One object that must go.
#[derive(Clone, Debug)]
struct Part {
    resource: ResourceType,
    namespace: String,
    name: String,
    uid: Option<String>,
}

/// A live Node that must stay as it is.
#[derive(Debug)]
struct Keep {
    place: Place,
    name: String,
    uid: Option<String>,
    /// Whether it was cordoned already: a deletion that was under way does that first.
    cordoned: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Removal {
    machine: String,
    parts: Vec<Part>,
    /// The live Node that must stay, by name and UID, and where to look for it.
    keep: Option<Keep>,
    /// The RKEControlPlane whose message named the machine.
    planner: Option<(String, String)>,
    patience: Duration,
    /// The step seen last, what was said about it, and since when nothing has changed.
    stands: Option<(String, Timestamp)>,
}

impl Removal {
    pub(crate) fn new(question: &Question, snapshot: &Snapshot, plan: &Plan) -> Self {
        let fleet = Fleet::of(question, snapshot);
        let name = question.machine().unwrap_or_default().to_owned();
        let targets = fleet.targets(question);
        let cluster = targets.first().copied();
        let picture = cluster.and_then(|cluster| cluster.machine(&name));
        let mut parts = Vec::new();
        // The objects of the plan, in the order in which they go.
        for action in &plan.actions {
            let object = &action.object;
            let part = Part {
                resource: action.resource.clone(),
                namespace: object.namespace.clone().unwrap_or_default(),
                name: object.name.clone(),
                uid: object.uid.clone(),
            };
            if !parts
                .iter()
                .any(|known: &Part| known.uid == part.uid && known.name == part.name && known.resource == part.resource)
            {
                parts.push(part);
            }
        }
        if let Some(picture) = picture {
            let own = [&picture.infra, &picture.bootstrap].into_iter().filter_map(|part| part.as_ref().ok()?.as_ref());
            let mut known: Vec<Part> = own
                .map(|part| Part {
                    resource: part.resource.clone(),
                    namespace: picture.row.namespace.clone(),
                    name: part.metadata.name.clone(),
                    uid: part.metadata.uid.clone(),
                })
                .collect();
            if let Some(secret) = picture.secret() {
                known.push(Part {
                    resource: SECRETS,
                    namespace: picture.row.namespace.clone(),
                    name: secret.metadata.name.clone(),
                    uid: secret.metadata.uid.clone(),
                });
            }
            let reference = picture.reference();
            known.push(Part {
                resource: MACHINES,
                namespace: picture.row.namespace.clone(),
                name: reference.name.clone(),
                uid: reference.uid,
            });
            for part in known {
                if !parts.iter().any(|other| other.resource == part.resource && other.name == part.name) {
                    parts.push(part);
                }
            }
        }
        let claimed = plan.repairs.iter().any(|code| code == findings::NODE_CLAIMED_TWICE.code);
        let keep = picture.filter(|_| claimed).and_then(|picture| {
            let name = picture.row.node.clone()?;
            let node = cluster?.node(&name).ok()?;
            Some(Keep {
                place: cluster?.place.clone()?,
                uid: node.and_then(|node| node.metadata.uid.clone()),
                cordoned: node.is_some_and(|node| node.unschedulable),
                name,
            })
        });
        let named = |message: &str| planner::parse(message).iter().any(|waiting| waiting.machines.contains(&name));
        let planner = cluster
            .filter(|cluster| cluster.planner_message().is_some_and(named))
            .map(|cluster| (cluster.namespace.clone(), cluster.name.clone()));
        Self { machine: name, parts, keep, planner, patience: question.patience, stands: None }
    }

    /// What is left, or why that is not known.
    fn left(&self, snapshot: &Snapshot) -> Result<Vec<String>, String> {
        let mut left = Vec::new();
        for part in &self.parts {
            match snapshot.raw(&part.resource, Some(&part.namespace), &part.name) {
                Ok(None) => {}
                // Another object of the same name is not ours.
                Ok(Some(object)) if part.uid.is_some() && object["metadata"]["uid"].as_str() != part.uid.as_deref() => {
                }
                Ok(Some(_)) => left.push(format!("{} {}", part.resource.kind, part.name)),
                Err(Unread::NotAsked) => return Err(format!("{} {} to be read", part.resource.kind, part.name)),
                Err(why) => return Err(format!("{} {} to be readable: {why}", part.resource.kind, part.name)),
            }
        }
        Ok(left)
    }

    /// Where the deletion stands, in a line, and as a text that changes when anything moves: Cluster API's words may stay
    /// the same while the objects behind them go one after the other.
    fn position(&self, snapshot: &Snapshot, left: &[String]) -> (String, String) {
        let machine = self
            .parts
            .iter()
            .find(|part| part.resource == MACHINES)
            .and_then(|part| snapshot.raw(&MACHINES, Some(&part.namespace), &part.name).ok().flatten())
            .and_then(Machine::read);
        match machine {
            Some(machine) if machine.deleting() => {
                let step = match machine.step() {
                    Some(Step::Unknown) | None => "the deletion".to_owned(),
                    Some(step) => step.to_string(),
                };
                let text = machine.step_text().unwrap_or_default().to_owned();
                let line = text.lines().next().unwrap_or_default();
                let left = left.join(", ");
                let shown = if line.is_empty() { format!("{step}; left: {left}") } else { format!("{step}: {line}") };
                (shown, format!("{step}: {text}; left: {left}"))
            }
            Some(_) => (format!("{} to be deleted", self.machine), String::new()),
            None => (format!("left: {}", left.join(", ")), left.join(", ")),
        }
    }
}

impl Verifier for Removal {
    fn needs(&self, _: &Snapshot) -> Vec<Need> {
        let mut needs: Vec<Need> = self
            .parts
            .iter()
            .map(|part| Need::required(Want::get(part.resource.clone(), Some(&part.namespace), &part.name), WHY))
            .collect();
        if let Some((namespace, name)) = &self.planner {
            needs.push(Need::required(
                Want::get(RKE_CONTROL_PLANES, Some(namespace), name),
                "whether the planner moves on",
            ));
        }
        if let Some(Keep { place, .. }) = &self.keep {
            needs.push(
                Need::required(Want::list(NODES, None, Form::Full), "whether the live Node is still there").at(place),
            );
        }
        needs
    }

    fn observe(&mut self, snapshot: &Snapshot) -> Verification {
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let total =
            number(self.parts.len()) + u64::from(self.planner.is_some()) + u64::from(self.keep.is_some()) * WATCHED;
        let left = match self.left(snapshot) {
            Ok(left) => left,
            Err(waiting_for) => return Verification::Pending { done: 0, total, waiting_for },
        };
        if !left.is_empty() {
            let (position, key) = self.position(snapshot, &left);
            let done = number(self.parts.len() - left.len());
            match &self.stands {
                Some((known, since)) if *known == key => {
                    let stood = between(*since, snapshot.as_of);
                    if stood >= self.patience {
                        return Verification::Stuck(format!(
                            "{} stands still for {}: {position}",
                            self.machine,
                            human(stood)
                        ));
                    }
                }
                _ => self.stands = Some((key, snapshot.as_of)),
            }
            return Verification::Pending { done, total, waiting_for: position };
        }
        if let Some(Keep { place, name, uid, cordoned }) = &self.keep {
            let nodes = snapshot.at(place).answer(&Want::list(NODES, None, Form::Full));
            let pending =
                |waiting_for: String| Verification::Pending { done: number(self.parts.len()), total, waiting_for };
            match nodes {
                Err(why) => return pending(format!("Node {name} to be seen: {why}")),
                Ok(nodes) => match nodes.iter().filter_map(Node::read).find(|node| node.name() == name) {
                    None => return pending(format!("Node {name} to be there, which must not go")),
                    // A kubelet that runs on registers its Node again, without what was on the old one.
                    Some(node) if node.metadata.uid != *uid => {
                        return pending(format!("Node {name}, which was deleted and made anew: look at it"));
                    }
                    Some(node) if node.unschedulable && !cordoned => {
                        return pending(format!("Node {name} to be uncordoned"));
                    }
                    Some(_) => {}
                },
            }
        }
        if let Some((namespace, name)) = &self.planner {
            let pending = |waiting_for: String| Verification::Pending { done: total - 1, total, waiting_for };
            match snapshot.raw(&RKE_CONTROL_PLANES, Some(namespace), name) {
                Err(why) => return pending(format!("the planner to be readable: {why}")),
                Ok(plane) => {
                    let message =
                        plane.and_then(ControlPlane::read).and_then(|plane| plane.message().map(str::to_owned));
                    let message = message.unwrap_or_default();
                    if planner::parse(&message).iter().any(|waiting| waiting.machines.contains(&self.machine)) {
                        return pending(format!("the planner to move on: {message}"));
                    }
                }
            }
        }
        let mut done = format!("{} and all that belonged to it are gone", self.machine);
        if let Some(Keep { name, cordoned, .. }) = &self.keep {
            done.push_str(&if *cordoned {
                format!("; Node {name} is still there, and cordoned as it was before: kubectl uncordon {name} there")
            } else {
                format!("; Node {name} is still there and schedulable")
            });
        }
        if self.planner.is_some() {
            done.push_str("; the planner does not wait for it any more");
        }
        Verification::Done(done)
    }
}
