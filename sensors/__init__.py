"""What notices lag and requests runs. No Spark here."""
