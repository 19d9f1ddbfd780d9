//! Telling the machines that are well from those that need a closer look, by what `kubectl get machines` shows.
//!
//! A machine is taken for well only if its row says all of it: phase Running, Ready True, not paused, and a node name that
//! no other machine of the cluster has. Everything else is read whole. v1beta1 has no column Ready, so there all are read whole.

use std::collections::HashMap;

use rancher_common::snapshot::{Form, Shown, Snapshot, Table, Want};
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

/// Where the cells of a machine's row are. Two spellings: v1beta2 and v1beta1 (additionalPrinterColumns of the two
/// versions of the CRD).
struct Columns {
    name: Option<usize>,
    cluster: Option<usize>,
    node: Option<usize>,
    provider_id: Option<usize>,
    addresses: [Option<usize>; 2],
    phase: Option<usize>,
    ready: Option<usize>,
    paused: Option<usize>,
    age: Option<usize>,
}

impl Columns {
    fn of(table: &Table) -> Self {
        let column = |names: &[&str]| names.iter().find_map(|name| table.column(name));
        Self {
            name: column(&["Name"]),
            cluster: column(&["Cluster"]),
            node: column(&["Node Name", "NodeName"]),
            provider_id: column(&["Provider ID", "ProviderID"]),
            addresses: [column(&["Internal-IP"]), column(&["External-IP"])],
            phase: column(&["Phase"]),
            ready: column(&["Ready"]),
            paused: column(&["Paused"]),
            age: column(&["Age"]),
        }
    }

    /// A row says nothing without the name of the machine and its cluster.
    fn row(&self, namespace: &str, cells: &[Value]) -> Option<Row> {
        // A cell without a value is null.
        let text = |column: Option<usize>| Some(cells.get(column?)?.as_str().unwrap_or_default());
        let some = |column| text(column).filter(|text| !text.is_empty()).map(str::to_owned);
        Some(Row {
            namespace: namespace.to_owned(),
            name: some(self.name)?,
            cluster: some(self.cluster)?,
            node: some(self.node),
            provider_id: some(self.provider_id),
            addresses: self.addresses.into_iter().filter_map(some).collect(),
            phase: text(self.phase).unwrap_or_default().to_owned(),
            ready: text(self.ready).map(str::to_owned),
            paused: text(self.paused) == Some("True"),
            age: text(self.age).unwrap_or_default().to_owned(),
        })
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
    snapshot.here().shown(&rows_of(namespace)).ok().map(Shown::count)
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
    match snapshot.here().shown(&rows_of(namespace)).map_err(|why| why.to_string())? {
        Shown::Objects(objects) => {
            let machines = objects.iter().filter_map(Machine::read);
            Ok(Rows { rows: machines.map(|machine| Row::of_machine(&machine)).collect(), too_thin: false })
        }
        Shown::Rows(table) => {
            let columns = Columns::of(table);
            let mut read = Rows { rows: Vec::with_capacity(table.rows.len()), too_thin: false };
            for cells in &table.rows {
                let row = columns.row(namespace, cells);
                read.too_thin |= row.as_ref().is_none_or(|row| row.ready.is_none());
                read.rows.extend(row);
            }
            Ok(read)
        }
    }
}

/// Whether the rows of Cluster API's Clusters do not say what is paused: v1beta1 has no such column.
pub(crate) fn no_word_of_pauses(snapshot: &Snapshot, namespace: &str) -> bool {
    let want = Want::list(rancher_common::rancher::CAPI_CLUSTERS, Some(namespace), Form::Table);
    matches!(snapshot.here().shown(&want), Ok(Shown::Rows(table)) if !table.rows.is_empty() && table.column("Paused").is_none())
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
