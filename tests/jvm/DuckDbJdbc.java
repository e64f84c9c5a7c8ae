import java.nio.file.*;
import java.sql.*;
import java.util.*;
import java.util.stream.*;

/** The explicit door through DuckDB's JDBC driver: arguments are the extension, a folder of TPC-H as Parquet, and its queries. */
public class DuckDbJdbc {
    static int checks = 0;

    public static void main(String[] arguments) throws Exception {
        var properties = new Properties();
        properties.setProperty("allow_unsigned_extensions", "true");
        try (var connection = DriverManager.getConnection("jdbc:duckdb:", properties); var statement = connection.createStatement()) {
            statement.execute("LOAD '" + arguments[0] + "'");
            for (var table : List.of("region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem")) {
                statement.execute("CREATE TABLE " + table + " AS FROM read_parquet('" + arguments[1] + "/" + table + ".parquet')");
            }
            statement.execute("SET VARIABLE warpmill_fallback = 'error'");
            queries(connection, Path.of(arguments[2]));
            transactions(connection);
            prepared(connection);
            errors(connection);
            // The driver reads results while they are streamed, too: a part of one is left behind.
            properties.setProperty("jdbc_stream_results", "true");
        }
        file(arguments[0], properties);
        System.out.println(checks + " checks passed");
    }

    static void queries(Connection connection, Path folder) throws Exception {
        List<Path> files;
        try (var found = Files.list(folder)) {
            files = found.filter(path -> path.toString().endsWith(".sql")).sorted().collect(Collectors.toList());
        }
        check(files.size() == 22, "22 queries");
        for (var path : files) {
            var sql = Files.readString(path).strip();
            var theirs = rows(connection, sql);
            var ours = rows(connection, explicit(sql));
            same(theirs, ours, path.getFileName().toString());
            check(text(connection, "SELECT accelerated FROM warpmill_last()").equals("true"), path + " is accelerated");
        }
    }

    static void transactions(Connection connection) throws Exception {
        var sql = "SELECT count(*) AS c, sum(n_nationkey) AS s FROM nation";
        connection.setAutoCommit(false);
        try (var statement = connection.createStatement()) {
            statement.execute("DELETE FROM nation WHERE n_nationkey > 3");
            same(rows(connection, sql), rows(connection, explicit(sql)), "own writes");
            connection.rollback();
        }
        connection.setAutoCommit(true);
        same(rows(connection, sql), rows(connection, explicit(sql)), "after a rollback");
    }

    static void prepared(Connection connection) throws Exception {
        try (var prepared = connection.prepareStatement("SELECT s FROM warpmill('SELECT n_regionkey AS r, sum(n_nationkey) AS s "
                + "FROM nation GROUP BY r') WHERE r = ?")) {
            for (int region = 0; region < 3; region++) {
                prepared.setInt(1, region);
                try (var result = prepared.executeQuery()) {
                    check(result.next(), "a row");
                    var expected = text(connection, "SELECT sum(n_nationkey) FROM nation WHERE n_regionkey = " + region);
                    check(result.getString(1).equals(expected), "prepared statement");
                }
            }
        }
    }

    static void errors(Connection connection) throws Exception {
        check(failure(connection, explicit("SELECT median(n_nationkey) FROM nation")).contains("does not run this query"), "strict");
        check(failure(connection, explicit("SELECT sum(x) FROM nowhere")).contains("nowhere"), "no table");
        check(failure(connection, explicit("DROP TABLE nation")).contains("single SELECT"), "not a SELECT");
        check(text(connection, "SELECT count(*) FROM nation").equals("25"), "the connection lives");
    }

    /** A database in a file: nothing is put into it, and it is free again after closing. */
    static void file(String extension, Properties properties) throws Exception {
        var folder = Files.createTempDirectory("warpmill");
        var url = "jdbc:duckdb:" + folder.resolve("x.db");
        for (int round = 0; round < 2; round++) {
            try (var connection = DriverManager.getConnection(url, properties); var statement = connection.createStatement()) {
                statement.execute("LOAD '" + extension + "'");
                statement.execute("CREATE OR REPLACE TABLE t AS SELECT i AS a, i % 3 AS g FROM range(100000) r(i)");
                var sql = "SELECT g, sum(a) AS s FROM t GROUP BY g ORDER BY g";
                check(failure(connection, explicit(sql)).contains("CREATE TEMP MACRO warpmill"), "what to do");
                same(rows(connection, sql), rows(connection, "FROM query(warpmill_sql('" + sql + "'))"), "without a macro");
                statement.execute("CREATE TEMP MACRO warpmill(q) AS TABLE FROM query(warpmill_sql(q))");
                same(rows(connection, sql), rows(connection, explicit(sql)), "with a macro");
                try (var part = statement.executeQuery(explicit("SELECT a, count(*) AS c FROM t GROUP BY a"))) {
                    check(part.next(), "the first row of many");
                }
            }
        }
    }

    static String explicit(String sql) {
        return "FROM warpmill('" + sql.replace("'", "''") + "')";
    }

    static String text(Connection connection, String sql) throws SQLException {
        try (var statement = connection.createStatement(); var result = statement.executeQuery(sql)) {
            check(result.next(), sql);
            return result.getString(1);
        }
    }

    static String failure(Connection connection, String sql) {
        try {
            rows(connection, sql);
        } catch (SQLException error) {
            check(!error.getMessage().contains("INTERNAL"), error.getMessage());
            return error.getMessage();
        }
        throw new AssertionError("no error: " + sql);
    }

    /** Names and types first. */
    static List<List<Object>> rows(Connection connection, String sql) throws SQLException {
        try (var statement = connection.createStatement(); var result = statement.executeQuery(sql)) {
            var meta = result.getMetaData();
            var rows = new ArrayList<List<Object>>();
            var header = new ArrayList<Object>();
            for (int column = 1; column <= meta.getColumnCount(); column++) {
                header.add(meta.getColumnName(column) + " " + meta.getColumnTypeName(column));
            }
            rows.add(header);
            while (result.next()) {
                var row = new ArrayList<Object>();
                for (int column = 1; column <= meta.getColumnCount(); column++) {
                    row.add(result.getObject(column));
                }
                rows.add(row);
            }
            return rows;
        }
    }

    static void same(List<List<Object>> theirs, List<List<Object>> ours, String what) {
        check(theirs.size() == ours.size(), what + ": " + theirs.size() + " and " + ours.size() + " rows");
        for (int row = 0; row < ours.size(); row++) {
            for (int column = 0; column < ours.get(row).size(); column++) {
                Object a = theirs.get(row).get(column), b = ours.get(row).get(column);
                boolean equal = a instanceof Double x && b instanceof Double y
                    ? Math.abs(x - y) <= 1e-9 * Math.abs(x) : Objects.equals(a, b);
                check(equal, what + ", row " + row + ": " + a + " and " + b);
            }
        }
    }

    static void check(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
        checks++;
    }
}
