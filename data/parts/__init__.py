"""Several files that are one table: how they agree, and how their data sets become one."""
