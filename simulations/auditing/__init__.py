"""What an audit does: gradients for the loop, its releases, and the evidence in them."""
