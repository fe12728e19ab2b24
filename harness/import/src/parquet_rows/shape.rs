//! The structure of a column: values, objects and lists, with the levels from which they are present.
//!
//! A value has two levels. The definition level counts the optional and repeated fields around it that are present; the
//! repetition level says which of the repeated fields continues with it: 0 begins a row.
//!
//! Source: `LogicalTypes.md`, the section on nested types with its rules for lists of older writers.

use parquet::basic::{ConvertedType, LogicalType, Repetition};
use parquet::schema::types::{SchemaDescriptor, Type};

use super::refusal::Refusal;

/// Maximum nesting. No known data set has more than four levels; the recursion must be bounded.
const MAX_DEPTH: i16 = 32;

/// A column, or a field of one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Null below this definition level.
    pub(super) present: i16,
    pub(super) kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Number of its leaf column.
    Leaf(usize),
    Object(Vec<(String, Shape)>),
    List {
        /// Empty below this definition level.
        filled: i16,
        /// From this repetition level on, a value belongs to the same list.
        same: i16,
        element: Box<Shape>,
    },
}

impl Shape {
    /// The first leaf column in it.
    pub(super) fn first_leaf(&self) -> usize {
        match &self.kind {
            Kind::Leaf(leaf) => *leaf,
            // An object has at least one field.
            Kind::Object(fields) => fields.first().map_or(0, |(_, field)| field.first_leaf()),
            Kind::List { element, .. } => element.first_leaf(),
        }
    }
}

/// The columns of a file.
///
/// # Errors
/// A column that JSON cannot represent.
pub(super) fn columns(schema: &SchemaDescriptor) -> Result<Vec<(String, Shape)>, Refusal> {
    let mut leaves = 0;
    let top = Levels { definition: 0, repetition: 0, depth: 0 };
    let columns = schema.root_schema().get_fields().iter();
    let columns: Vec<_> = columns
        .map(|field| {
            let shape = shape(field, top, &mut leaves).map_err(|reason| unreadable(field.name(), &reason))?;
            Ok((field.name().to_owned(), shape))
        })
        .collect::<Result<_, Refusal>>()?;
    if columns.is_empty() {
        return Err(Refusal::new("has no columns", "name a file with rows"));
    }
    Ok(columns)
}

/// A column that is refused.
pub(super) fn unreadable(column: &str, reason: &str) -> Refusal {
    Refusal::new(
        format!("has a column that is not supported, `{column}`: {reason}"),
        "remove it, or write it as texts, numbers, lists or structs of them",
    )
}

#[derive(Debug, Clone, Copy)]
struct Levels {
    definition: i16,
    repetition: i16,
    depth: i16,
}

impl Levels {
    fn inside(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    fn optional(self) -> Self {
        Self { definition: self.definition + 1, ..self }
    }

    fn repeated(self) -> Self {
        Self { definition: self.definition + 1, repetition: self.repetition + 1, ..self }
    }
}

fn shape(field: &Type, around: Levels, leaves: &mut usize) -> Result<Shape, String> {
    if around.depth > MAX_DEPTH {
        return Err(format!("it has more than {MAX_DEPTH} nested fields"));
    }
    match field.get_basic_info().repetition() {
        Repetition::REQUIRED => inner(field, around, leaves),
        Repetition::OPTIONAL => inner(field, around.optional(), leaves),
        // A repeated field outside a list, as some writers store a list: it cannot be null.
        Repetition::REPEATED => {
            let element = inner(field, around.repeated(), leaves)?;
            Ok(list(around, element))
        }
    }
}

fn list(around: Levels, element: Shape) -> Shape {
    let Levels { definition, repetition, .. } = around.repeated();
    let kind = Kind::List { filled: definition, same: repetition, element: Box::new(element) };
    Shape { present: around.definition, kind }
}

/// The content of a present field.
fn inner(field: &Type, around: Levels, leaves: &mut usize) -> Result<Shape, String> {
    if field.is_primitive() {
        *leaves += 1;
        return Ok(Shape { present: around.definition, kind: Kind::Leaf(*leaves - 1) });
    }
    let info = field.get_basic_info();
    let is_map = info.logical_type_ref() == Some(&LogicalType::Map)
        || matches!(info.converted_type(), ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE);
    if is_map || matches!(info.logical_type_ref(), Some(LogicalType::Variant(_))) {
        return Err("it is a map or a variant".to_owned());
    }
    let is_list =
        info.logical_type_ref() == Some(&LogicalType::List) || info.converted_type() == ConvertedType::LIST;
    match field.get_fields() {
        [] => Err("an object in it has no fields".to_owned()),
        [repeated] if is_list && is_repeated(repeated) => {
            let inside = around.repeated().inside();
            let element = match element(field, repeated) {
                Some(element) => shape(element, inside, leaves)?,
                None => inner(repeated, inside, leaves)?,
            };
            Ok(list(around, element))
        }
        fields => {
            let fields = fields
                .iter()
                .map(|field| Ok((field.name().to_owned(), shape(field, around.inside(), leaves)?)));
            let fields = fields.collect::<Result<_, String>>()?;
            Ok(Shape { present: around.definition, kind: Kind::Object(fields) })
        }
    }
}

fn is_repeated(field: &Type) -> bool {
    field.get_basic_info().repetition() == Repetition::REPEATED
}

/// The element inside the repeated field of a list; `None` if the repeated field itself is the element, as in files of
/// older writers.
fn element<'a>(list: &Type, repeated: &'a Type) -> Option<&'a Type> {
    if repeated.is_primitive() {
        return None;
    }
    match repeated.get_fields() {
        [only] => {
            let is_element = is_repeated(only)
                || repeated.name() == "array"
                || repeated.name() == format!("{}_tuple", list.name());
            (!is_element).then_some(&**only)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::schema::parser::parse_message_type;

    use super::*;

    fn check(fields: &str, expected: Result<Shape, &str>) {
        let schema = parse_message_type(&format!("message rows {{ {fields} }}")).unwrap();
        let found = columns(&SchemaDescriptor::new(Arc::new(schema)));
        match (found, expected) {
            (Ok(mut found), Ok(expected)) => assert_eq!(found.remove(0).1, expected, "{fields}"),
            (Err(refusal), Err(expected)) => assert!(refusal.message.contains(expected), "{refusal:?}"),
            (found, expected) => panic!("{fields}: {found:?}, not {expected:?}"),
        }
    }

    fn leaf(present: i16, leaf: usize) -> Shape {
        Shape { present, kind: Kind::Leaf(leaf) }
    }

    fn list_of(present: i16, same: i16, element: Shape) -> Shape {
        Shape { present, kind: Kind::List { filled: present + 1, same, element: Box::new(element) } }
    }

    fn object(present: i16, fields: Vec<(&str, Shape)>) -> Shape {
        let fields = fields.into_iter().map(|(name, shape)| (name.to_owned(), shape)).collect();
        Shape { present, kind: Kind::Object(fields) }
    }

    #[test]
    fn p1_columns_are_values_objects_or_lists() {
        check("required binary a (UTF8);", Ok(leaf(0, 0)));
        check("optional binary a (UTF8);", Ok(leaf(1, 0)));
        check(
            "optional group a { required int32 b; optional int32 c; }",
            Ok(object(1, vec![("b", leaf(1, 0)), ("c", leaf(2, 1))])),
        );
        check(
            "optional group a (LIST) { repeated group list { optional binary element (UTF8); } }",
            Ok(list_of(1, 1, leaf(3, 0))),
        );
        check(
            "optional group a (LIST) { repeated group list { required group element (LIST) { repeated group list { required int32 element; } } } }",
            Ok(list_of(1, 1, list_of(2, 2, leaf(3, 0)))),
        );
    }

    #[test]
    fn p1_lists_of_older_writers_are_lists() {
        check("repeated int32 a;", Ok(list_of(0, 1, leaf(1, 0))));
        check("optional group a (LIST) { repeated int32 element; }", Ok(list_of(1, 1, leaf(2, 0))));
        check(
            "optional group a (LIST) { repeated group element { required int32 b; required int32 c; } }",
            Ok(list_of(1, 1, object(2, vec![("b", leaf(2, 0)), ("c", leaf(2, 1))]))),
        );
        check(
            "optional group a (LIST) { repeated group array { required int32 b; } }",
            Ok(list_of(1, 1, object(2, vec![("b", leaf(2, 0))]))),
        );
        check(
            "optional group a (LIST) { repeated group a_tuple { required int32 b; } }",
            Ok(list_of(1, 1, object(2, vec![("b", leaf(2, 0))]))),
        );
    }

    #[test]
    fn columns_without_json_form_are_refused() {
        check(
            "optional group a (MAP) { repeated group key_value { required binary key (UTF8); optional int32 value; } }",
            Err("it is a map"),
        );
        let deep = format!("{}required int32 b;{}", "required group a {".repeat(40), "}".repeat(40));
        check(&deep, Err("more than 32 nested fields"));
    }
}
