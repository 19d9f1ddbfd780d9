//! A table of the objects that were looked at, good ones included: what a list of findings does not show.

use crate::resource::ObjectRef;

use super::Severity;

/// The table that `check` prints above its findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, in the order they are shown.
    pub rows: Vec<Row>,
}

/// A column of an [`Inventory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Heading in capitals, as kubectl writes it: `MACHINE`, `NODE REF`. Its key in the JSON is the same in camelCase;
    /// `OBJECT`, `OBJECTS` and `SEVERITY` are taken.
    pub name: &'static str,
    /// Shown only with `-o wide` (and always in the JSON).
    pub wide: bool,
}

/// A row of an [`Inventory`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The object it is about.
    pub object: ObjectRef,
    /// How bad it is, if it is.
    pub severity: Option<Severity>,
    /// One text for each column.
    pub cells: Vec<String>,
    /// Lines shown indented below it, for instance the objects that hang on this one, as a tree.
    pub below: Vec<String>,
}
