"""Methods of the original notes that had not been tried, on the workbench policy."""
