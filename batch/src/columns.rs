//! Rows -> Arrow columns, named as the members of a [`Row`].

use std::sync::{Arc, LazyLock};

use arrow_array::builder::BooleanBuilder;
use arrow_array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use kimi_xtml::Counts;

use crate::row::Row;

/// Bytes that the outputs of one record batch may have together: whatever they are, no column of it outgrows its offsets of
/// 32 bits.
pub const LONGEST: usize = 256 << 20;

fn field(name: &str, of: DataType) -> FieldRef {
    Arc::new(Field::new(name, of, false))
}

fn list(of: &Fields) -> DataType {
    DataType::List(field("item", DataType::Struct(of.clone())))
}

static CALL: LazyLock<Fields> = LazyLock::new(|| {
    let text = |name| field(name, DataType::Utf8);
    [text("id"), text("name"), text("arguments"), field("complete", DataType::Boolean)].into_iter().collect()
});

static COUNTS: LazyLock<Fields> = LazyLock::new(|| {
    let names = ["input", "reasoning", "content", "arguments", "markup", "withheld", "dropped"];
    names.into_iter().map(|name| field(name, DataType::Int64)).collect()
});

static NOTED: LazyLock<Fields> = LazyLock::new(|| {
    let count = |name| field(name, DataType::Int64);
    [field("code", DataType::Utf8), count("count"), count("first")].into_iter().collect()
});

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("reasoning", DataType::Utf8, true),
        Field::new("content", DataType::Utf8, false),
        Field::new("tool_calls", list(&CALL), false),
        Field::new("finish_reason", DataType::Utf8, false),
        Field::new("bytes", DataType::Struct(COUNTS.clone()), false),
        Field::new("tokens", DataType::Struct(COUNTS.clone()), true),
        Field::new("diagnostics", list(&NOTED), false),
    ]))
});

/// The schema of [`columns`].
pub fn schema() -> SchemaRef {
    SCHEMA.clone()
}

/// A record batch of these rows, whose outputs had [`LONGEST`] bytes at most.
///
/// # Errors
/// None, if that holds.
///
/// ```
/// let batch = kimi_xtml_batch::columns(&[kimi_xtml_batch::Row::default()]).unwrap();
/// assert_eq!((batch.num_rows(), batch.schema()), (1, kimi_xtml_batch::schema()));
/// ```
pub fn columns(rows: &[Row]) -> Result<RecordBatch, ArrowError> {
    let calls = || rows.iter().flat_map(|row| &row.tool_calls);
    let noted = || rows.iter().flat_map(|row| &row.diagnostics);
    let mut complete = BooleanBuilder::new();
    calls().for_each(|call| complete.append_value(call.complete));
    let calls: Vec<ArrayRef> = vec![
        texts(calls().map(|call| &*call.id)),
        texts(calls().map(|call| &*call.name)),
        texts(calls().map(|call| &*call.arguments)),
        Arc::new(complete.finish()),
    ];
    let noted: Vec<ArrayRef> = vec![
        texts(noted().map(|noted| noted.code.as_str())),
        numbers(noted().map(|noted| noted.count)),
        numbers(noted().map(|noted| noted.first)),
    ];
    let tokens = rows.iter().map(|row| row.tokens.unwrap_or_default());
    let counted = NullBuffer::from_iter(rows.iter().map(|row| row.tokens.is_some()));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter(rows.iter().map(|row| row.reasoning.as_deref()))),
        texts(rows.iter().map(|row| &*row.content)),
        lists(&CALL, rows.iter().map(|row| row.tool_calls.len()), calls)?,
        texts(rows.iter().map(|row| &*row.finish_reason)),
        counts(rows.iter().map(|row| row.bytes), None)?,
        counts(tokens, Some(counted))?,
        lists(&NOTED, rows.iter().map(|row| row.diagnostics.len()), noted)?,
    ];
    RecordBatch::try_new(schema(), columns)
}

fn texts<'a>(texts: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(texts))
}

fn numbers(numbers: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(numbers.map(|number| number as i64)))
}

fn lists(of: &Fields, lengths: impl Iterator<Item = usize>, columns: Vec<ArrayRef>) -> Result<ArrayRef, ArrowError> {
    let items = StructArray::try_new(of.clone(), columns, None)?;
    let item = field("item", DataType::Struct(of.clone()));
    Ok(Arc::new(ListArray::try_new(item, OffsetBuffer::from_lengths(lengths), Arc::new(items), None)?))
}

fn counts(rows: impl Iterator<Item = Counts> + Clone, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
    let of = |count: fn(&Counts) -> u64| numbers(rows.clone().map(move |counts| count(&counts)));
    let columns = vec![
        of(|counts| counts.input),
        of(|counts| counts.reasoning),
        of(|counts| counts.content),
        of(|counts| counts.arguments),
        of(|counts| counts.markup),
        of(|counts| counts.withheld),
        of(|counts| counts.dropped),
    ];
    Ok(Arc::new(StructArray::try_new(COUNTS.clone(), columns, nulls)?))
}
