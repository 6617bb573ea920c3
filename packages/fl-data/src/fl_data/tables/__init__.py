"""Tables: columns of CSV, Parquet and Arrow files."""
