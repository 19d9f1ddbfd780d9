//! Telling the machines that are well from those that need a closer look, by what `kubectl get machines` shows.
//!
//! A machine is taken for well only if its row says all of it: phase Running, Ready True, not paused, and a node name that
//! no other machine of the cluster has. Everything else is read whole. v1beta1 has no column Ready, so there all are read whole.

use std::collections::HashMap;

use rancher_common::snapshot::{Form, Snapshot, Want};
use serde_json::Value;

use super::machine::Machine;

/// What is known of every machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub namespace: String,
    pub name: String,
    pub cluster: String,
    pub node: Option<String>,
    pub provider_id: Option<String>,
    pub addresses: Vec<String>,
    pub phase: String,
    /// `None` where the server has no such column.
    pub ready: Option<String>,
    /// Whether Cluster API says that it is paused.
    pub paused: bool,
    /// As the server shows it: `41m`, `2d`.
    pub age: String,
}

impl Row {
    fn of_cells(object: &Value) -> Option<Self> {
        let mut row = Self {
            namespace: object["metadata"]["namespace"].as_str()?.to_owned(),
            name: object["metadata"]["name"].as_str()?.to_owned(),
            ..Self::default()
        };
        let (mut internal, mut external) = (None, None);
        // One pass: in a fleet this is done for every machine, and again in every round of questions. Two spellings:
        // v1beta2 and v1beta1 (additionalPrinterColumns of the two versions of the CRD).
        for (column, cell) in object.get("cells")?.as_object()? {
            let text = cell.as_str().unwrap_or_default();
            let some = || (!text.is_empty()).then(|| text.to_owned());
            match column.as_str() {
                "Cluster" => text.clone_into(&mut row.cluster),
                "Node Name" | "NodeName" => row.node = some(),
                "Provider ID" | "ProviderID" => row.provider_id = some(),
                "Internal-IP" => internal = some(),
                "External-IP" => external = some(),
                "Phase" => text.clone_into(&mut row.phase),
                "Ready" => row.ready = Some(text.to_owned()),
                "Paused" => row.paused = text == "True",
                "Age" => text.clone_into(&mut row.age),
                _ => {}
            }
        }
        row.addresses = internal.into_iter().chain(external).collect();
        (!row.cluster.is_empty()).then_some(row)
    }

    fn of_machine(machine: &Machine) -> Self {
        Self {
            namespace: machine.metadata.namespace.clone().unwrap_or_default(),
            name: machine.metadata.name.clone(),
            cluster: machine.cluster.clone(),
            node: machine.node.clone(),
            provider_id: machine.provider_id.clone(),
            addresses: machine.addresses.clone(),
            phase: machine.phase.clone(),
            ready: machine.condition("Ready").map(|ready| ready.status.clone()),
            paused: machine.condition("Paused").is_some_and(|paused| paused.is("True")),
            age: String::new(),
        }
    }

    /// Whether the row alone tells that the machine is well, as far as it goes for itself.
    fn well(&self) -> bool {
        self.phase == "Running" && self.ready.as_deref() == Some("True") && self.node.is_some() && !self.paused
    }
}

/// The row of a whole Machine.
pub(crate) fn row_of(machine: &Machine) -> Row {
    Row::of_machine(machine)
}

/// The question for the rows of a namespace.
pub(crate) fn rows_of(namespace: &str) -> Want {
    Want::list(rancher_common::rancher::MACHINES, Some(namespace), Form::Table)
}

/// How many rows a namespace has, if they were read.
pub(crate) fn count(snapshot: &Snapshot, namespace: &str) -> Option<usize> {
    snapshot.here().answer(&rows_of(namespace)).ok().map(<[Value]>::len)
}

/// The rows of a namespace.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub rows: Vec<Row>,
    /// Whether they lack what a verdict needs, so that whole objects must be read instead: the column Ready, or the
    /// cluster of one of them.
    pub too_thin: bool,
}

/// The rows of a namespace, or why they could not be read. A row that says less than it should is left to the whole
/// objects.
pub(crate) fn rows(snapshot: &Snapshot, namespace: &str) -> Result<Rows, String> {
    let objects = snapshot.here().answer(&rows_of(namespace)).map_err(|why| why.to_string())?;
    let mut read = Rows { rows: Vec::with_capacity(objects.len()), too_thin: false };
    for object in objects {
        if object.get("cells").is_none() {
            read.rows.extend(Machine::read(object).map(|machine| Row::of_machine(&machine)));
            continue;
        }
        let row = Row::of_cells(object);
        read.too_thin |= row.as_ref().is_none_or(|row| row.ready.is_none());
        read.rows.extend(row);
    }
    Ok(read)
}

/// Whether the rows of Cluster API's Clusters do not say what is paused: v1beta1 has no such column.
pub(crate) fn no_word_of_pauses(snapshot: &Snapshot, namespace: &str) -> bool {
    let want = Want::list(rancher_common::rancher::CAPI_CLUSTERS, Some(namespace), Form::Table);
    let Ok(objects) = snapshot.here().answer(&want) else { return false };
    objects.iter().filter_map(|object| object.get("cells")).any(|cells| cells.get("Paused").is_none())
}

/// Which rows need a closer look; by index.
pub(crate) fn suspects(rows: &[Row]) -> Vec<usize> {
    let mut claims: HashMap<(&str, &str, &str), usize> = HashMap::new();
    for row in rows {
        if let Some(node) = &row.node {
            *claims.entry((&row.namespace, &row.cluster, node)).or_default() += 1;
        }
    }
    let claimed_twice = |row: &Row| {
        row.node.as_ref().is_some_and(|node| {
            claims.get(&(row.namespace.as_str(), row.cluster.as_str(), node.as_str())).is_some_and(|claims| *claims > 1)
        })
    };
    rows.iter().enumerate().filter(|(_, row)| !row.well() || claimed_twice(row)).map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, node: Option<&str>) -> Row {
        Row {
            namespace: "fleet-default".into(),
            name: name.into(),
            cluster: "c".into(),
            node: node.map(str::to_owned),
            phase: "Running".into(),
            ready: Some("True".into()),
            ..Row::default()
        }
    }

    #[test]
    fn only_a_row_that_says_all_is_well() {
        let well = row("a", Some("n1"));
        let other_cluster = Row { cluster: "d".into(), ..row("b", Some("n1")) };
        assert!(suspects(&[well.clone(), other_cluster]).is_empty());
        assert_eq!(suspects(&[well.clone(), row("b", Some("n1"))]), [0, 1]);
        let doubtful = [
            row("x", None),
            Row { ready: None, ..row("x", Some("n2")) },
            Row { ready: Some("Unknown".into()), ..row("x", Some("n2")) },
            Row { ready: Some(String::new()), ..row("x", Some("n2")) },
            Row { phase: "Deleting".into(), ..row("x", Some("n2")) },
            Row { paused: true, ..row("x", Some("n2")) },
        ];
        for doubtful in doubtful {
            assert_eq!(suspects(&[well.clone(), doubtful.clone()]), [1], "{doubtful:?}");
        }
    }
}
