// Types and values of DuckDB in the form in which Warpmill stores them.
#include "attached.hpp"

#include <set>

#include "duckdb/parser/constraints/check_constraint.hpp"
#include "duckdb/parser/constraints/not_null_constraint.hpp"
#include "duckdb/parser/constraints/unique_constraint.hpp"
#include "duckdb/parser/parsed_data/create_table_info.hpp"

namespace warpmill {

// A type in SQL with all names in quotes, since Warpmill reads unquoted names in lower case. Empty if Warpmill has no such type.
static string TypeSql(const LogicalType &type) {
	auto of = [](const LogicalType &part, const string &before, const string &after) {
		auto text = TypeSql(part);
		return text.empty() ? text : before + text + after;
	};
	if (type.HasAlias() && type.id() != LogicalTypeId::ENUM) {
		return string();
	}
	switch (type.id()) {
	case LogicalTypeId::SQLNULL:
		return "INTEGER";
	case LogicalTypeId::BOOLEAN:
	case LogicalTypeId::TINYINT:
	case LogicalTypeId::SMALLINT:
	case LogicalTypeId::INTEGER:
	case LogicalTypeId::BIGINT:
	case LogicalTypeId::UTINYINT:
	case LogicalTypeId::USMALLINT:
	case LogicalTypeId::UINTEGER:
	case LogicalTypeId::UBIGINT:
	case LogicalTypeId::HUGEINT:
	case LogicalTypeId::FLOAT:
	case LogicalTypeId::DOUBLE:
	case LogicalTypeId::DECIMAL:
	case LogicalTypeId::BLOB:
	case LogicalTypeId::DATE:
	case LogicalTypeId::TIME:
	case LogicalTypeId::TIMESTAMP:
	case LogicalTypeId::TIMESTAMP_SEC:
	case LogicalTypeId::TIMESTAMP_MS:
	case LogicalTypeId::TIMESTAMP_NS:
	case LogicalTypeId::TIMESTAMP_TZ:
	case LogicalTypeId::INTERVAL:
	case LogicalTypeId::UUID:
		return type.ToString();
	case LogicalTypeId::VARCHAR:
		return StringType::GetCollation(type).empty() ? "VARCHAR" : string();
	case LogicalTypeId::ENUM: {
		string members;
		for (idx_t i = 0; i < EnumType::GetSize(type); i++) {
			auto member = EnumType::GetString(type, i).GetString();
			members += (i ? ", '" : "'") + StringUtil::Replace(member, "'", "''") + "'";
		}
		return "ENUM(" + members + ")";
	}
	case LogicalTypeId::LIST:
		return of(ListType::GetChildType(type), "", "[]");
	case LogicalTypeId::ARRAY:
		return of(ArrayType::GetChildType(type), "", "[" + to_string(ArrayType::GetSize(type)) + "]");
	case LogicalTypeId::MAP:
		return of(MapType::KeyType(type), "MAP(", of(MapType::ValueType(type), ", ", ")"));
	case LogicalTypeId::STRUCT: {
		string fields;
		for (auto &field : StructType::GetChildTypes(type)) {
			auto text = TypeSql(field.second);
			if (text.empty() || Text(field.first).empty()) {
				return string();
			}
			fields += (fields.empty() ? "" : ", ") + Quoted(Text(field.first)) + " " + text;
		}
		return "STRUCT(" + fields + ")";
	}
	default:
		return string();
	}
}

static string ColumnSql(const ColumnDefinition &column, bool not_null) {
	auto name = Quoted(Text(column.Name()));
	if (column.Generated()) {
		throw NotImplementedException("column %s is generated, which columns of Warpmill are not", name);
	}
	auto type = TypeSql(column.Type());
	if (type.empty()) {
		auto is_text = column.Type().id() == LogicalTypeId::VARCHAR && !column.Type().HasAlias();
		auto collation = is_text ? " COLLATE " + StringType::GetCollation(column.Type()) : string();
		throw NotImplementedException("column %s has the type %s, which Warpmill does not store", name,
		                              column.Type().ToString() + collation);
	}
	auto text = name + " " + type + (not_null ? " NOT NULL" : "");
	return column.HasDefaultValue() ? text + " DEFAULT " + column.DefaultValue().ToString() : text;
}

static string KeySql(const CreateTableInfo &info, const UniqueConstraint &key) {
	string names;
	if (key.HasIndex()) {
		names = Quoted(Text(info.columns.GetColumn(key.GetIndex()).Name()));
	} else {
		for (auto &name : key.GetColumnNames()) {
			names += (names.empty() ? "" : ", ") + Quoted(Text(name));
		}
	}
	return (key.IsPrimaryKey() ? "PRIMARY KEY (" : "UNIQUE (") + names + ")";
}

string CreateTableSql(const string &schema, CreateTableInfo &info) {
	std::set<idx_t> not_null;
	vector<string> parts, constraints;
	for (auto &constraint : info.constraints) {
		switch (constraint->type) {
		case ConstraintType::NOT_NULL:
			not_null.insert(constraint->Cast<NotNullConstraint>().index.index);
			break;
		case ConstraintType::UNIQUE:
			constraints.push_back(KeySql(info, constraint->Cast<UniqueConstraint>()));
			break;
		case ConstraintType::CHECK:
			constraints.push_back("CHECK (" + constraint->Cast<CheckConstraint>().expression->ToString() + ")");
			break;
		default:
			throw NotImplementedException("FOREIGN KEY of a table of Warpmill: it would not be enforced");
		}
	}
	for (auto &column : info.columns.Logical()) {
		parts.push_back(ColumnSql(column, not_null.count(column.Logical().index) > 0));
	}
	parts.insert(parts.end(), constraints.begin(), constraints.end());
	string text = "CREATE ";
	text += info.on_conflict == OnCreateConflict::REPLACE_ON_CONFLICT ? "OR REPLACE TABLE " : "TABLE ";
	text += info.on_conflict == OnCreateConflict::IGNORE_ON_CONFLICT ? "IF NOT EXISTS " : "";
	return text + Qualified(schema, Text(info.GetTableName())) + " (" + StringUtil::Join(parts, ", ") + ")";
}

LogicalType SentAs(const LogicalType &type) {
	switch (type.id()) {
	case LogicalTypeId::HUGEINT:
		return LogicalType::DECIMAL(38, 0);
	case LogicalTypeId::SQLNULL:
		return LogicalType::INTEGER;
	case LogicalTypeId::LIST:
		return LogicalType::LIST(SentAs(ListType::GetChildType(type)));
	case LogicalTypeId::ARRAY:
		return LogicalType::ARRAY(SentAs(ArrayType::GetChildType(type)), ArrayType::GetSize(type));
	case LogicalTypeId::MAP:
		return LogicalType::MAP(SentAs(MapType::KeyType(type)), SentAs(MapType::ValueType(type)));
	case LogicalTypeId::STRUCT: {
		child_list_t<LogicalType> fields;
		for (auto &field : StructType::GetChildTypes(type)) {
			fields.emplace_back(field.first, SentAs(field.second));
		}
		return LogicalType::STRUCT(std::move(fields));
	}
	default:
		return type;
	}
}

// Whether values contain intervals, dates or timestamps, which have special values in DuckDB only.
static bool HasMoments(const LogicalType &type) {
	switch (type.id()) {
	case LogicalTypeId::INTERVAL:
	case LogicalTypeId::DATE:
	case LogicalTypeId::TIMESTAMP:
	case LogicalTypeId::TIMESTAMP_SEC:
	case LogicalTypeId::TIMESTAMP_MS:
	case LogicalTypeId::TIMESTAMP_NS:
	case LogicalTypeId::TIMESTAMP_TZ:
		return true;
	case LogicalTypeId::LIST:
		return HasMoments(ListType::GetChildType(type));
	case LogicalTypeId::ARRAY:
		return HasMoments(ArrayType::GetChildType(type));
	case LogicalTypeId::MAP:
		return HasMoments(MapType::KeyType(type)) || HasMoments(MapType::ValueType(type));
	case LogicalTypeId::STRUCT: {
		auto &fields = StructType::GetChildTypes(type);
		return std::any_of(fields.begin(), fields.end(), [](auto &field) { return HasMoments(field.second); });
	}
	default:
		return false;
	}
}

static void CheckMoment(const Value &value, const string &column) {
	if (value.IsNull()) {
		return;
	}
	auto &type = value.type();
	bool infinite = false;
	switch (type.id()) {
	case LogicalTypeId::INTERVAL: {
		auto micros = value.GetValueUnsafe<interval_t>().micros;
		if (micros > NumericLimits<int64_t>::Maximum() / 1000 || micros < NumericLimits<int64_t>::Minimum() / 1000) {
			throw OutOfRangeException("the interval %s in column %s has more nanoseconds than Warpmill stores",
			                          value.ToString(), Quoted(column));
		}
		return;
	}
	case LogicalTypeId::DATE:
		infinite = !Value::IsFinite(value.GetValueUnsafe<date_t>());
		break;
	case LogicalTypeId::TIMESTAMP:
	case LogicalTypeId::TIMESTAMP_SEC:
	case LogicalTypeId::TIMESTAMP_MS:
	case LogicalTypeId::TIMESTAMP_NS:
	case LogicalTypeId::TIMESTAMP_TZ: {
		auto moment = value.GetValueUnsafe<int64_t>();
		infinite = moment == NumericLimits<int64_t>::Maximum() || moment == -NumericLimits<int64_t>::Maximum();
		break;
	}
	case LogicalTypeId::LIST:
	case LogicalTypeId::MAP:
		for (auto &child : ListValue::GetChildren(value)) {
			CheckMoment(child, column);
		}
		return;
	case LogicalTypeId::ARRAY:
		for (auto &child : ArrayValue::GetChildren(value)) {
			CheckMoment(child, column);
		}
		return;
	case LogicalTypeId::STRUCT:
		for (auto &child : StructValue::GetChildren(value)) {
			CheckMoment(child, column);
		}
		return;
	default:
		return;
	}
	if (infinite) {
		throw OutOfRangeException("the value %s in column %s is infinite, which Warpmill has not", value.ToString(),
		                          Quoted(column));
	}
}

// Whether a vector of one physical type has a value, other than NULL, that passes the test.
template <class T, class F>
static bool AnyOf(Vector &vector, idx_t count, F test) {
	UnifiedVectorFormat format;
#if WARPMILL_DUCKDB >= 20000
	vector.ToUnifiedFormat(format);
#else
	vector.ToUnifiedFormat(count, format);
#endif
	auto values = UnifiedVectorFormat::GetData<T>(format);
	for (idx_t row = 0; row < count; row++) {
		auto index = format.sel->get_index(row);
		if (format.validity.RowIsValid(index) && test(values[index])) {
			return true;
		}
	}
	return false;
}

// Whether the values of a column have to be checked one by one.
static bool IsSuspect(Vector &vector, idx_t count) {
	auto &type = vector.GetType();
	if (!HasMoments(type)) {
		return false;
	}
	switch (type.id()) {
	case LogicalTypeId::DATE:
		return AnyOf<date_t>(vector, count, [](date_t date) { return !Value::IsFinite(date); });
	case LogicalTypeId::TIMESTAMP:
	case LogicalTypeId::TIMESTAMP_SEC:
	case LogicalTypeId::TIMESTAMP_MS:
	case LogicalTypeId::TIMESTAMP_NS:
	case LogicalTypeId::TIMESTAMP_TZ:
		return AnyOf<int64_t>(vector, count, [](int64_t moment) {
			return moment == NumericLimits<int64_t>::Maximum() || moment == -NumericLimits<int64_t>::Maximum();
		});
	default:
		return true;
	}
}

void CheckValues(Vector &vector, idx_t count, const string &column) {
	if (!IsSuspect(vector, count)) {
		return;
	}
	for (idx_t row = 0; row < count; row++) {
		CheckMoment(vector.GetValue(row), column);
	}
}

} // namespace warpmill
