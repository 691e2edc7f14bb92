"""The PostgreSQL database of a team, where SHOAL_DATABASE names one; its tables are known to those who use them."""
