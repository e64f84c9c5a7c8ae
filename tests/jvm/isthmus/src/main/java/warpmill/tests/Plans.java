package warpmill.tests;

import io.substrait.isthmus.SqlToSubstrait;
import io.substrait.isthmus.sql.SubstraitCreateStatementParser;
import io.substrait.plan.PlanProtoConverter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.apache.calcite.prepare.CalciteCatalogReader;

/** Writes the Substrait plan of every SQL file of a folder: {@code Plans SCHEMA.sql QUERIES OUT}. */
public final class Plans {
  private Plans() {}

  public static void main(String[] args) throws Exception {
    CalciteCatalogReader catalog =
        SubstraitCreateStatementParser.processCreateStatementsToCatalog(Files.readString(Path.of(args[0])));
    Path out = Files.createDirectories(Path.of(args[2]));
    int failed = 0;
    for (Path query : queries(Path.of(args[1]))) {
      String name = query.getFileName().toString().replace(".sql", "");
      try {
        byte[] plan = plan(Files.readString(query), catalog);
        Files.write(out.resolve(name + ".bin"), plan);
      } catch (Exception error) {
        failed++;
        System.err.println(name + ": " + error.getMessage());
      }
    }
    System.exit(failed == 0 ? 0 : 1);
  }

  private static List<Path> queries(Path folder) throws IOException {
    try (Stream<Path> files = Files.list(folder)) {
      return files.filter(file -> file.toString().endsWith(".sql")).sorted().toList();
    }
  }

  /** VALUE, the alias of a column in TPC-H's query 11, is a reserved word of Calcite's parser. */
  private static byte[] plan(String text, CalciteCatalogReader catalog) throws Exception {
    String sql = text.replaceAll("\\bvalue\\b", "\"VALUE\"");
    return new PlanProtoConverter().toProto(new SqlToSubstrait().convert(sql, catalog)).toByteArray();
  }
}
