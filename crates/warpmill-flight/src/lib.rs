//! Arrow Flight SQL server over a Warpmill database.
