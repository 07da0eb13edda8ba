"""What the cost model predicts for models and machines that are not at hand."""
