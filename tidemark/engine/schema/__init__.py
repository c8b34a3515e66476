"""What writers wrote, the columns that they ask for, and how a table follows."""
