"""Networks trained under each mechanism at equal privacy, and what came out."""
