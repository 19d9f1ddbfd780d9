//! The inventory of a report: `items` for programs, a table for people.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::finding::{Inventory, Row, Severity};
use crate::text::escape;
use crate::ui::Styles;

/// The rows as `items`: each an object with the row's own keys and one for each column.
pub(super) fn items<S: Serializer>(inventory: &Option<Inventory>, serializer: S) -> Result<S::Ok, S::Error> {
    let inventory = inventory.iter();
    let items: Vec<Value> = inventory.flat_map(|all| all.rows.iter().map(|row| item(all, row))).collect();
    items.serialize(serializer)
}

fn item(inventory: &Inventory, row: &Row) -> Value {
    let mut item = Map::new();
    item.insert("object".to_owned(), json!(row.object));
    if let Some(severity) = row.severity {
        item.insert("severity".to_owned(), json!(severity));
    }
    for (column, cell) in inventory.columns.iter().zip(&row.cells) {
        item.entry(key(column.name)).or_insert_with(|| json!(cell));
    }
    if !row.below.is_empty() {
        item.insert("objects".to_owned(), json!(row.below));
    }
    Value::Object(item)
}

/// `NODE REF` as `nodeRef`.
fn key(heading: &str) -> String {
    let words = heading.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words
        .enumerate()
        .map(|(index, word)| {
            let word = word.to_lowercase();
            let mut letters = word.chars();
            match letters.next() {
                Some(first) if index > 0 => first.to_uppercase().chain(letters).collect(),
                _ => word,
            }
        })
        .collect()
}

/// Space between two columns, as kubectl leaves it.
const GAP: usize = 3;

/// The table, kubectl's way: a heading, columns as wide as their widest cell, one line a row whatever the width, since
/// wrapped cells cannot be cut by `awk`.
pub(super) fn table(inventory: &Inventory, styles: &Styles, wide: bool) -> String {
    let shown: Vec<usize> = (0..inventory.columns.len()).filter(|at| wide || !inventory.columns[*at].wide).collect();
    let headings: Vec<String> = shown.iter().map(|at| inventory.columns[*at].name.to_owned()).collect();
    let rows: Vec<Vec<String>> = inventory
        .rows
        .iter()
        .map(|row| shown.iter().map(|at| cell(row.cells.get(*at).map_or("", String::as_str))).collect())
        .collect();
    let widths: Vec<usize> = (0..shown.len())
        .map(|at| std::iter::once(&headings).chain(&rows).map(|cells| columns(&cells[at])).max().unwrap_or_default())
        .collect();
    let mut out = format!("{}\n", styles.strong.style(line(&headings, &widths)));
    for (row, cells) in inventory.rows.iter().zip(&rows) {
        let style = match row.severity {
            Some(Severity::Error) => styles.bad,
            Some(Severity::Warning) => styles.warning,
            Some(Severity::Unknown) => styles.unknown,
            Some(Severity::Info) | None => owo_colors::Style::new(),
        };
        out.push_str(&format!("{}\n", style.style(line(cells, &widths))));
        for below in &row.below {
            out.push_str(&format!("  {}\n", styles.dim.style(escape(below))));
        }
    }
    out
}

/// An empty cell would shift the ones behind it for who counts words; kubectl writes the same.
fn cell(text: &str) -> String {
    if text.is_empty() { "<none>".to_owned() } else { escape(text).into_owned() }
}

fn columns(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        line.push_str(cell);
        line.extend(std::iter::repeat_n(' ', width.saturating_sub(columns(cell)) + GAP));
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Column;
    use crate::kinds::PODS;
    use crate::resource::ObjectRef;

    fn inventory() -> Inventory {
        let row = |name: &str, severity, cells: &[&str], below: &[&str]| Row {
            object: ObjectRef::new(&PODS, Some("fleet-default"), name),
            severity,
            cells: cells.iter().map(|cell| (*cell).to_owned()).collect(),
            below: below.iter().map(|line| (*line).to_owned()).collect(),
        };
        let column = |name, wide| Column { name, wide };
        Inventory {
            columns: vec![column("MACHINE", false), column("NODE REF", true), column("STATE", false)],
            rows: vec![
                row("a", None, &["叢集-a", "worker-1", "ok"], &[]),
                row("b", Some(Severity::Error), &["b\u{1b}[2J", "", "ghost"], &["|- bootstrap b", "`- secret \u{9b}b"]),
                row("c", Some(Severity::Warning), &["c"], &[]),
            ],
        }
    }

    #[test]
    fn columns_line_up_and_nothing_acts_on_the_terminal() {
        insta::assert_snapshot!(table(&inventory(), &Styles::default(), false), @r"
        MACHINE    STATE
        叢集-a     ok
        b\x1b[2J   ghost
          |- bootstrap b
          `- secret \x9bb
        c          <none>
        ");
        insta::assert_snapshot!(table(&inventory(), &Styles::default(), true), @r"
        MACHINE    NODE REF   STATE
        叢集-a     worker-1   ok
        b\x1b[2J   <none>     ghost
          |- bootstrap b
          `- secret \x9bb
        c          <none>     <none>
        ");
    }

    #[test]
    fn colour_only_adds() {
        let colored = table(&inventory(), &Styles::colored(), true);
        assert!(colored.contains("\u{1b}["), "{colored}");
        let plain = console::strip_ansi_codes(&colored).into_owned();
        assert_eq!(plain, table(&inventory(), &Styles::default(), true));
    }

    #[test]
    fn programs_get_every_column_by_name() {
        let items = items(&Some(inventory()), serde_json::value::Serializer).expect("JSON");
        assert_eq!(
            items[1],
            json!({
                "object": {"kind": "Pod", "namespace": "fleet-default", "name": "b"}, "severity": "error",
                "machine": "b\u{1b}[2J", "nodeRef": "", "state": "ghost",
                "objects": ["|- bootstrap b", "`- secret \u{9b}b"],
            })
        );
        assert_eq!(
            items[2],
            json!({
                "object": {"kind": "Pod", "namespace": "fleet-default", "name": "c"}, "severity": "warning", "machine": "c"
            })
        );
        assert_eq!(key("BLOCKED-BY (CAPI)"), "blockedByCapi");
    }
}
