"""The parts of an audit: gradients for the loop, its releases, and the evidence in them."""
