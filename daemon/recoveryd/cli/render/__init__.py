"""What people see: tables, numbers, progress. Nothing here asks or sends anything."""
