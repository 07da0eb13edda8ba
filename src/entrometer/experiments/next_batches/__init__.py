"""What a training's next update batches do: several batches, each with its own step."""
