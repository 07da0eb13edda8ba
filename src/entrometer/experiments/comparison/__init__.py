"""Which remedy suits a checkpoint: predicted by influence, and held against truth."""
