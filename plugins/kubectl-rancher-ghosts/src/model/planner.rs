//! What Rancher's planner says it waits for (rancher/rancher pkg/capr/planner/{planner,messages}.go).
//!
//! `<verb> <tier> node(s) <a>,<b>,<c>[ and <k> more][: <detail>]`; the detail stands only if one machine is concerned.
//! Several such texts are joined by `, `, so they are looked for inside the message. Others name no machine at all.

/// One thing the planner waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// `configuring`, `draining`, `uncordoning`, `failing`, `non-ready`; `waiting` where no machine is named.
    pub verb: &'static str,
    /// `bootstrap`, `etcd`, `control plane`, `worker`.
    pub tier: &'static str,
    /// Up to three machines; the planner does not name more.
    pub machines: Vec<String>,
    /// How many more.
    pub more: usize,
    /// What the one machine waits for.
    pub detail: String,
}

/// The tiers in the planner's order: while one waits, the later ones are not touched (planner.go, fullReconcile).
const TIERS: [&str; 4] = ["bootstrap", "etcd", "control plane", "worker"];

/// Texts that name a tier by what it lacks, in part (pkg/capr/planner/{planner,initnode,etcdrestore}.go). The last one is
/// also the detail of a single worker, which is no text of its own.
const WITHOUT_NAMES: [(&str, &str); 5] = [
    ("waiting for viable init node", "bootstrap"),
    ("join url to be available on bootstrap node", "bootstrap"),
    ("waiting for all etcd machines to be deleted", "etcd"),
    (" etcd machines to delete", "etcd"),
    ("waiting for control plane to be available", "control plane"),
];

/// The text of a lost etcd plane, in part.
pub(crate) const ETCD_REPLACED: &str = "indicating the etcd plane has been entirely replaced";

impl Waiting {
    /// Whether later tiers wait too: `failing` and `non-ready` are only reported.
    pub(crate) fn blocks(&self) -> bool {
        !matches!(self.verb, "failing" | "non-ready")
    }

    /// The tiers that are not touched meanwhile. Within the worker tier only the workers that are still to come wait.
    pub(crate) fn later_tiers(&self) -> &'static [&'static str] {
        match TIERS.iter().position(|tier| *tier == self.tier) {
            Some(at) if self.blocks() => &TIERS[at + 1..],
            _ => &[],
        }
    }
}

/// All that a message says about machines.
pub(crate) fn parse(message: &str) -> Vec<Waiting> {
    let mut starts: Vec<(usize, usize, &'static str, &'static str)> = Vec::new();
    for (verb, noun) in [
        ("configuring", "node(s)"),
        ("draining", "node(s)"),
        ("uncordoning", "node(s)"),
        ("failing", "machine(s)"),
        ("non-ready", "machine(s)"),
    ] {
        for tier in TIERS {
            let head = format!("{verb} {tier} {noun} ");
            starts.extend(message.match_indices(&head).map(|(at, _)| (at, at + head.len(), verb, tier)));
        }
    }
    starts.sort_unstable();
    if starts.is_empty() {
        let unnamed = WITHOUT_NAMES.iter().find(|(text, _)| message.contains(text));
        return unnamed
            .map(|(_, tier)| Waiting { verb: "waiting", tier, machines: Vec::new(), more: 0, detail: String::new() })
            .into_iter()
            .collect();
    }
    let ends = starts.iter().skip(1).map(|start| start.0).chain([message.len()]).collect::<Vec<_>>();
    starts.iter().zip(ends).map(|((_, from, verb, tier), to)| one(verb, tier, &message[*from..to])).collect()
}

fn one(verb: &'static str, tier: &'static str, rest: &str) -> Waiting {
    let rest = rest.trim_end().trim_end_matches(',');
    let (names, detail) = rest.split_once(": ").unwrap_or((rest, ""));
    // Without a detail, another text may follow behind a comma and a blank.
    let names = names.split(", ").next().unwrap_or_default();
    let (names, more) = match names.split_once(" and ") {
        Some((names, tail)) => (names, tail.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0)),
        None => (names, 0),
    };
    Waiting {
        verb,
        tier,
        machines: names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        more,
        detail: detail.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machines(waiting: &Waiting) -> Vec<&str> {
        waiting.machines.iter().map(String::as_str).collect()
    }

    #[test]
    fn the_forms_of_the_message() {
        let ghost = parse(
            "configuring bootstrap node(s) custom-2d74d4c9a104: waiting for agent to check in and apply initial plan",
        );
        assert_eq!(
            (ghost[0].verb, ghost[0].tier, machines(&ghost[0])),
            ("configuring", "bootstrap", vec!["custom-2d74d4c9a104"])
        );
        assert_eq!(ghost[0].detail, "waiting for agent to check in and apply initial plan");
        assert_eq!(ghost[0].later_tiers(), ["etcd", "control plane", "worker"]);

        let many =
            parse("configuring worker node(s) custom-3524fa7f0d71,custom-3b154219b4e1,custom-40e383a8d1da and 10 more");
        assert_eq!((many[0].machines.len(), many[0].more), (3, 10));
        assert!(many[0].later_tiers().is_empty());

        let two = parse(
            "non-ready worker machine(s) w1,w2, configuring control plane node(s) c1: waiting for probes: kube-scheduler, kubelet",
        );
        assert_eq!(two.len(), 2);
        assert_eq!((machines(&two[0]), two[0].blocks()), (vec!["w1", "w2"], false));
        assert_eq!(two[1].detail, "waiting for probes: kube-scheduler, kubelet");

        let unnamed = parse("waiting for etcd to be available and join url to be available on bootstrap node");
        assert_eq!((unnamed[0].tier, unnamed[0].blocks(), machines(&unnamed[0]).len()), ("bootstrap", true, 0));
        let detail = parse("configuring worker node(s) w1: waiting for control plane to be available");
        assert_eq!((detail.len(), detail[0].tier), (1, "worker"));
        assert_eq!(parse("waiting for 2 etcd machines to delete")[0].tier, "etcd");

        for other in ["", "waiting for infrastructure ready", "waiting for at least one etcd node", "configuring etcd"]
        {
            assert!(parse(other).is_empty(), "{other}");
        }
    }
}
