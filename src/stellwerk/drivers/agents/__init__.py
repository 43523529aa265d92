"""What drivers share that speak to a runtime's agent, wherever it is and whatever leads there."""
