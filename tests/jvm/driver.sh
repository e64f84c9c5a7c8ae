# Sourced: a JDBC driver's jar, fetched by Maven once. Sets $jar and $here; ends with 77, and says why, where Java, Maven or the driver
# cannot be had. Usage: driver GROUP NAME VERSION.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

skip() { echo "skipped: $*" >&2; exit 77; }

driver() {
    local cache="${WARPMILL_JVM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/warpmill-jvm}" release
    jar="$cache/$2-$3.jar"
    command -v java >/dev/null || skip "there is no java"
    release=$(java -XshowSettings:properties -version 2>&1 | sed -n 's/.*java.specification.version = //p')
    [ "${release%%.*}" -ge 17 ] 2>/dev/null || skip "Java 17 or later is needed, not $release"
    [ ! -f "$jar" ] || return 0
    command -v mvn >/dev/null || skip "there is no mvn to fetch the JDBC driver with"
    mkdir -p "$cache" 2>/dev/null || skip "$cache cannot be written"
    part=$(mktemp -d "$cache/part.XXXXXX")
    trap 'rm -rf "$part"' EXIT
    timeout 180 mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
        "-Dartifact=$1:$2:$3" "-DoutputDirectory=$part" >/dev/null 2>&1 || skip "Maven cannot fetch $2 $3"
    mv "$part/$2-$3.jar" "$jar"
    rm -rf "$part"
}
