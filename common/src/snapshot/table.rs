//! What `kubectl get` shows of the objects of a list.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::redact_text;

/// The column that the API server gives every kind first (kubernetes/kubernetes
/// staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor/tableconvertor.go, New).
const NAME: &str = "Name";

/// The rows of a `meta.k8s.io/v1` Table. They stay as the server sends them, cells in the order of the columns: as an
/// object each, the rows of a large fleet would take several times the memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The cells of each row; a row may have fewer than there are columns.
    pub rows: Vec<Vec<Value>>,
}

impl Table {
    /// Takes the server's answer, without its secrets.
    #[must_use]
    pub fn of_answer(answer: TableAnswer) -> Self {
        let columns = answer.column_definitions.into_iter().map(|column| column.name).collect();
        let mut rows: Vec<Vec<Value>> = answer.rows.into_iter().map(|row| row.cells).collect();
        for cell in rows.iter_mut().flatten() {
            if let Value::String(text) = cell
                && let Cow::Owned(clean) = redact_text(text)
            {
                *text = clean;
            }
        }
        Self { columns, rows }
    }

    /// Where the column of this name is.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// The text in this column, row by row; `None` where it is empty or something else.
    pub fn texts<'t>(&'t self, column: &str) -> impl Iterator<Item = Option<&'t str>> {
        let column = self.column(column);
        self.rows.iter().map(move |row| row.get(column?)?.as_str())
    }

    /// The names of the objects.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.texts(NAME).flatten()
    }

    /// The same rows and those of a second answer; `None` if the two do not show the same columns. They are of two
    /// moments: an object that was made anew in between is in both.
    #[must_use]
    pub(super) fn joined(mut self, more: Self) -> Option<Self> {
        let name = self.column(NAME).filter(|_| self.columns == more.columns)?;
        let name_of = |row: &[Value]| row.get(name).and_then(Value::as_str).map(str::to_owned);
        let known: HashSet<String> = self.rows.iter().filter_map(|row| name_of(row)).collect();
        self.rows.extend(more.rows.into_iter().filter(|row| name_of(row).is_none_or(|name| !known.contains(&name))));
        Some(self)
    }
}

/// A `Table` as the server sends it. Something without columns and rows is none: a server, or what stands before it, may
/// not know the form and answer with a list, which is not to be taken for an empty table.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TableAnswer {
    #[serde(deserialize_with = "or_null")]
    column_definitions: Vec<ColumnDefinition>,
    #[serde(deserialize_with = "or_null")]
    rows: Vec<TableRow>,
}

#[derive(Debug, Deserialize)]
struct ColumnDefinition {
    name: String,
}

#[derive(Debug, Deserialize)]
struct TableRow {
    #[serde(deserialize_with = "or_null")]
    cells: Vec<Value>,
}

/// Go writes an empty list as null.
fn or_null<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn table(rows: &Value) -> Table {
        let answer = json!({
            "kind": "Table",
            "columnDefinitions": [{"name": "Name", "type": "string"}, {"name": "Phase"}, {"name": "Message"}],
            "rows": rows,
        });
        Table::of_answer(serde_json::from_value(answer).unwrap())
    }

    #[test]
    fn cells_are_found_by_their_columns() {
        let table =
            table(&json!([{"cells": ["m1", "Running", "password=hunter2"]}, {"cells": ["m2", null]}, {"cells": null}]));
        assert_eq!(table.names().collect::<Vec<_>>(), ["m1", "m2"]);
        assert_eq!(table.texts("Phase").collect::<Vec<_>>(), [Some("Running"), None, None]);
        assert_eq!(table.texts("Paused").collect::<Vec<_>>(), [None, None, None]);
        assert!(!format!("{table:?}").contains("hunter2"), "{table:?}");
    }

    #[test]
    fn a_list_is_no_empty_table() {
        assert_eq!(table(&Value::Null).rows, Vec::<Vec<Value>>::new());
        let empty: TableAnswer = serde_json::from_value(json!({"columnDefinitions": null, "rows": null})).unwrap();
        assert_eq!(Table::of_answer(empty), Table::default());
        let list = json!({"kind": "MachineList", "items": [{"metadata": {"name": "m1"}}]});
        assert!(serde_json::from_value::<TableAnswer>(list).is_err());
    }

    #[test]
    fn an_object_in_two_answers_is_one() {
        let first = table(&json!([{"cells": ["m1", "Running"]}, {"cells": ["m2", "Pending"]}]));
        let second = table(&json!([{"cells": ["m2", "Running"]}, {"cells": ["m3", "Running"]}]));
        let joined = first.joined(second).unwrap();
        assert_eq!(joined.names().collect::<Vec<_>>(), ["m1", "m2", "m3"]);
        assert_eq!(joined.texts("Phase").flatten().collect::<Vec<_>>(), ["Running", "Pending", "Running"]);
        let other = Table { columns: vec!["Name".into()], ..Table::default() };
        assert_eq!(joined.joined(other), None, "the rows of the second would be lost");
    }
}
