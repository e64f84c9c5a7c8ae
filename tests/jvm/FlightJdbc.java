import java.sql.Connection;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

/** Warpmill's Flight SQL server through the Arrow JDBC driver. Usage: FlightJdbc HOST:PORT [USER PASSWORD]. */
public class FlightJdbc {
    private static int checks = 0;

    private static void check(String what, Object found, Object expected) {
        if (!String.valueOf(found).equals(String.valueOf(expected))) {
            throw new AssertionError(what + ": " + found + ", not " + expected);
        }
        checks++;
    }

    private interface Work {
        void run() throws Exception;
    }

    private static void fails(String what, String message, Work work) throws Exception {
        try {
            work.run();
        } catch (SQLException error) {
            check(what + " (" + error.getMessage() + ")", error.getMessage().toLowerCase().contains(message), true);
            return;
        }
        throw new AssertionError(what + " did not fail");
    }

    private static List<String> column(ResultSet rows, String name) throws SQLException {
        List<String> values = new ArrayList<>();
        try (rows) {
            while (rows.next()) {
                values.add(rows.getString(name));
            }
        }
        return values;
    }

    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:arrow-flight-sql://" + arguments[0] + "/";
        Properties properties = new Properties();
        properties.put("useEncryption", "false");
        if (arguments.length > 1) {
            properties.put("user", arguments[1]);
            properties.put("password", arguments[2]);
        }
        try (Connection connection = DriverManager.getConnection(url, properties)) {
            statements(connection);
            parameters(connection);
            metadata(connection);
            cancellation(connection);
        }
        if (arguments.length > 1) {
            properties.put("password", "wrong");
            fails("wrong password", "wrong user name or password", () -> DriverManager.getConnection(url, properties).close());
        }
        System.out.println(checks + " checks passed");
    }

    private static void statements(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            check("create", statement.executeUpdate(
                "CREATE TABLE jdbc (a BIGINT, s VARCHAR, p DECIMAL(9, 2), d DATE, f DOUBLE)"), 0);
            check("fill", statement.executeUpdate(
                "INSERT INTO jdbc SELECT value, 'n' || value, CAST(value AS DECIMAL(9, 2)) / 4, "
                    + "DATE '2026-01-01' + CAST(value AS INT), CASE WHEN value % 2 = 0 THEN value * 0.5e0 END "
                    + "FROM generate_series(1, 10) s(value)"), 10);
            ResultSet rows = statement.executeQuery("SELECT * FROM jdbc WHERE a <= 2 ORDER BY a");
            check("type", rows.getMetaData().getColumnType(1), Types.BIGINT);
            rows.next();
            check("a", rows.getLong("a"), 1);
            check("s", rows.getString("s"), "n1");
            check("p", rows.getBigDecimal("p").doubleValue(), 0.25);
            check("d", rows.getDate("d"), Date.valueOf("2026-01-02"));
            rows.getDouble("f");
            check("null", rows.wasNull(), true);
            rows.next();
            check("f", rows.getDouble("f"), 1.0);
            check("end", rows.next(), false);
            check("insert", statement.executeUpdate("INSERT INTO jdbc (a, s) VALUES (11, 'x'), (12, NULL)"), 2);
            rows = statement.executeQuery("SELECT count(*), sum(a) FROM jdbc");
            rows.next();
            check("sum", rows.getLong(1) + " " + rows.getLong(2), "12 78");
            rows = statement.executeQuery("SELECT value FROM generate_series(1, 500000) s(value)");
            long sum = 0;
            while (rows.next()) {
                sum += rows.getLong(1);
            }
            check("many rows", sum, 125000250000L);
            fails("syntax", "expected", () -> statement.executeQuery("SELEC 1"));
            fails("table", "not found", () -> statement.executeQuery("SELECT * FROM nowhere"));
        }
    }

    private static void parameters(Connection connection) throws Exception {
        try (PreparedStatement query = connection.prepareStatement("SELECT s FROM jdbc WHERE a > ? AND s <> ? ORDER BY a")) {
            query.setLong(1, 8);
            query.setString(2, "n10");
            check("rows", column(query.executeQuery(), "s"), "[n9, x]");
            query.setLong(1, 10);
            check("again", column(query.executeQuery(), "s"), "[x]");
        }
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO jdbc (a, s) VALUES (?, ?)")) {
            insert.setLong(1, 20);
            insert.setString(2, "y");
            check("insert", insert.executeUpdate(), 1);
            for (int i = 0; i < 3; i++) {
                insert.setLong(1, 30 + i);
                insert.setString(2, "batch");
                insert.addBatch();
            }
            insert.executeBatch();
        }
        try (Statement statement = connection.createStatement()) {
            ResultSet rows = statement.executeQuery("SELECT sum(a) FROM jdbc WHERE a >= 20");
            rows.next();
            check("inserted", rows.getLong(1), 113);
        }
    }

    private static void metadata(Connection connection) throws Exception {
        var facts = connection.getMetaData();
        check("product", facts.getDatabaseProductName(), "Warpmill");
        check("read only", facts.isReadOnly(), false);
        check("transactions", facts.supportsTransactions(), false);
        check("tables", column(facts.getTables(null, null, "jdb%", null), "TABLE_NAME"), "[jdbc]");
        check("columns", column(facts.getColumns(null, null, "jdbc", "%"), "COLUMN_NAME"), "[a, s, p, d, f]");
        check("keys", column(facts.getPrimaryKeys(null, null, "jdbc"), "COLUMN_NAME"), "[]");
        check("schemas", column(facts.getSchemas(), "TABLE_SCHEM").contains("public"), true);
        check("catalogs", column(facts.getCatalogs(), "TABLE_CAT"), "[datafusion]");
    }

    /**
     * Cancels a statement whose rows have no end. Nothing is read meanwhile: the driver frees a stream's buffers when it is cancelled,
     * also one that another thread reads at that moment, which then fails in whatever way.
     */
    private static void cancellation(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            ResultSet rows = statement.executeQuery("SELECT value FROM generate_series(1, 10000000000) s(value)");
            for (int i = 1; i <= 100000; i++) {
                rows.next();
                check("row", rows.getLong(1), i);
            }
            Thread canceller = new Thread(() -> {
                try {
                    statement.cancel();
                } catch (SQLException error) {
                    System.err.println("cancel: " + error);
                }
            });
            canceller.start();
            canceller.join();
            fails("cancelled", "cancel", () -> {
                while (rows.next()) {
                    rows.getLong(1);
                }
            });
            statement.executeUpdate("DROP TABLE jdbc");
        }
    }
}
