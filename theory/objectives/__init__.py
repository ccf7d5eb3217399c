"""What a finite run minimises: quadratic forms of its noise, and the workloads through which noise is seen."""
